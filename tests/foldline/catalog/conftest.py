"""Writes plugin folders, right or wrong in one place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WritePlugin = Callable[..., Path]

MANIFEST = """
[model]
name = "{name}"
title = "{title}"
description = "Answers with its input."
lane = "{lane}"
licence = "MIT"

[plugin]
entry = "plugin:Plugin"
runtime = "none"
version = "1.0"
seed_default = "fixed"
load_timeout_s = 10
run_timeout_s = {run_timeout_s}
memory_mb = 100
"""

INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["text"],
    "properties": {"text": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 100}},
    "examples": [{"text": "abc"}],
}


@pytest.fixture
def write_plugin(tmp_path: Path) -> WritePlugin:
    """Write `tmp_path/plugins/<folder>`; keywords change the manifest, `text` the one field."""

    def write(
        name: str = "echo",
        *,
        folder: str = "",
        schema: dict[str, Any] | None = None,
        text: dict[str, Any] | None = None,
        code: str = "class Plugin: ...\n",
        **manifest: Any,
    ) -> Path:
        home = tmp_path / "plugins" / (folder or name)
        home.mkdir(parents=True, exist_ok=True)
        values = {"title": "Echo", "lane": "online", "run_timeout_s": 60, **manifest}
        (home / "manifest.toml").write_text(MANIFEST.format(name=name, **values))
        (home / "plugin.py").write_text(code)
        inputs = schema or INPUT_SCHEMA
        if text is not None:
            inputs = {**inputs, "properties": {"text": text}}
        (home / "input.schema.json").write_text(json.dumps(inputs))
        (home / "output.schema.json").write_text('{"type": "object"}')
        return home

    return write
