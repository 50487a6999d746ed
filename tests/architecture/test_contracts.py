"""The lists in pyproject.toml name what is really there."""

from __future__ import annotations

import tomllib
from typing import Any

from foldline.environment import ROOT

LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
CONTRACTS: dict[str, dict[str, Any]] = {entry["id"]: entry for entry in LINTER["contracts"]}
PLUGINS = {f"model_plugins.{f.parent.name}" for f in ROOT.glob("model_plugins/*/manifest.toml")}
# `formats` is a setting in the shape that Django wants it.
ROOMS = {f.parent.name for f in ROOT.glob("platform/foldline/*/__init__.py")} - {"formats"}


def test_every_package_at_the_top_is_looked_at() -> None:
    packages = {
        file.parent.name
        for file in [*ROOT.glob("*/__init__.py"), *ROOT.glob("platform/*/__init__.py")]
    }
    assert set(LINTER["root_packages"]) == packages - {"benchmarks"}


def test_every_plugin_is_a_stranger_to_the_others_and_to_foldline() -> None:
    assert set(CONTRACTS["plugin_strangers"]["modules"]) == PLUGINS
    assert set(CONTRACTS["plugin_doors"]["forbidden_modules"]) >= PLUGINS


def test_every_room_has_its_layer() -> None:
    layers = {room.strip() for layer in CONTRACTS["rooms"]["layers"] for room in layer.split("|")}
    assert layers == ROOMS
    assert set(CONTRACTS["hall"]["forbidden_modules"]) == {f"foldline.{room}" for room in ROOMS}


def test_every_table_is_protected() -> None:
    tables = {
        f"foldline.{f.parent.name}.models" for f in ROOT.glob("platform/foldline/*/models.py")
    }
    assert set(CONTRACTS["models"]["protected_modules"]) == tables
