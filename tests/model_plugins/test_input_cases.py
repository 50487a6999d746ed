"""Inputs that real users sent, and the answer each must get before anything is computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model_plugins.base import InvalidInput, Preflights
from model_plugins.loading import import_plugin
from model_plugins.registry import BUILTIN_ROOT

HOME = Path(__file__).resolve().parents[1] / "cases"
# Without those that never get as far as a plugin.
CASES = sorted(
    expect.parent
    for expect in HOME.glob("*/expect.json")
    if json.loads(expect.read_text()).get("at") != "door"
)


def preflight(case: Path) -> tuple[dict[str, Any], list[str]]:
    request = json.loads((case / "request.json").read_text())
    files = {field: str(case / name) for field, name in request.get("files", {}).items()}
    model = request["model"]
    plugin = import_plugin(name=model, folder=BUILTIN_ROOT / model, entry="plugin:Plugin")
    assert isinstance(plugin, Preflights)
    inputs, warnings = plugin.preflight({**request["inputs"], **files})
    return dict(inputs), [warning.partition(":")[0] for warning in warnings]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_input_gets_the_answer_it_should(case: Path) -> None:
    expected = json.loads((case / "expect.json").read_text())
    if expected["answer"] != "reject":
        inputs, warnings = preflight(case)
        assert warnings == expected["warnings"]
        assert {key: inputs[key] for key in expected.get("inputs", {})} == expected.get(
            "inputs", {}
        )
        return
    with pytest.raises(InvalidInput) as refused:
        preflight(case)
    details = refused.value.details
    said = {key: details[key] for key in expected.keys() & details.keys()}
    assert said == {key: value for key, value in expected.items() if key != "answer"}
    assert str(refused.value)
    assert details["hint"]
