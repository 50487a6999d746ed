"""The modules that decide import the standard library and each other, nothing else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from foldline.environment import ROOT

ROOMS = ROOT / "platform" / "foldline"
BRAIN = ROOT / "scaler" / "brain"
PURE = sorted(
    [
        ROOMS / "jobs" / "states.py",
        ROOMS / "notify" / "schedule.py",
        *(ROOMS / "scheduling").rglob("*.py"),
        *BRAIN.rglob("*.py"),
    ]
)


@pytest.mark.parametrize("file", PURE, ids=lambda file: str(file.relative_to(ROOT)))
def test_it_is_pure(file: Path) -> None:
    allowed = set(sys.stdlib_module_names)
    foreign = {
        name
        for name in imports_of(file)
        if name.split(".")[0] not in allowed
        and not name.startswith(("foldline.scheduling", "scaler.brain"))
    }
    assert foreign == set()


def imports_of(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add(node.module or "")
    return found
