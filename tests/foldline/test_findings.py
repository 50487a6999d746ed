"""The list of finding codes holds all that are used: by the platform, and by the models in the
house."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.api import envelope
from foldline.catalog import schemas
from foldline.environment import ROOT
from foldline.findings import FINDINGS, OF_MODELS, OF_REQUESTS

PLATFORM = sorted((ROOT / "platform" / "foldline").rglob("*.py"))
MODELS = sorted((ROOT / "model_plugins").rglob("*.py"))
# Functions that take a code, and its place among their arguments.
TAKES_A_CODE = {"finding": 1, "wrong_parameter": 1, "_refuse": 1}


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def texts(node: ast.expr) -> Iterator[str]:
    """The code, or the two of `a if … else b`; a variable holds what another place named."""
    branches = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    return (
        branch.value
        for branch in branches
        if isinstance(branch, ast.Constant) and isinstance(branch.value, str)
    )


def of_platform(path: Path) -> Iterator[str]:
    for call in calls(path):
        place = TAKES_A_CODE.get(getattr(call.func, "id", getattr(call.func, "attr", "")))
        if place is not None and len(call.args) > place:
            yield from texts(call.args[place])


def of_models(path: Path) -> Iterator[str]:
    for call in calls(path):
        for keyword in call.keywords:
            if keyword.arg == "reason" and getattr(call.func, "id", "") == "InvalidInput":
                yield from texts(keyword.value)


@pytest.mark.parametrize("table", [schemas._SAID, envelope._SAID], ids=["schemas", "envelope"])
def test_every_code_of_a_schema_is_listed(table: dict[str, tuple[str, str]]) -> None:
    assert {code for code, _ in table.values()} <= OF_REQUESTS.keys()


def test_every_code_the_platform_names_is_listed() -> None:
    used = {code for path in PLATFORM for code in of_platform(path)}
    assert {"unknown_field", "nul_character", "unknown_parameter"} <= used  # they are found
    assert used <= OF_REQUESTS.keys()


def test_every_code_of_the_models_in_the_house_is_listed() -> None:
    used = {code for path in MODELS for code in of_models(path)}
    assert {"no_atoms", "chain_not_found"} <= used
    assert used <= FINDINGS.keys()


@pytest.mark.parametrize("code", FINDINGS)
def test_every_code_has_a_sentence_and_is_used(code: str) -> None:
    assert FINDINGS[code].endswith(".")
    written = "".join(path.read_text() for path in (*PLATFORM, *MODELS) if path.stem != "findings")
    assert f'"{code}"' in written


def test_no_code_is_of_both_kinds() -> None:
    assert not OF_REQUESTS.keys() & OF_MODELS.keys()
