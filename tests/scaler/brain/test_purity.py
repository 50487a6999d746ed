from __future__ import annotations

import ast
from pathlib import Path

import pytest

from foldline.environment import ROOT

BRAIN = sorted((ROOT / "scaler" / "brain").glob("*.py"))


@pytest.mark.parametrize("file", BRAIN, ids=lambda file: file.name)
def test_the_brain_asks_no_clock_and_no_chance(file: Path) -> None:
    named = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(file.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not named & {"time", "datetime", "random", "os", "threading", "asyncio", "subprocess"}
