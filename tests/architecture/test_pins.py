"""requirements.txt pins everything that ships; the hashed files are parts of it."""

from __future__ import annotations

import re

import pytest

from foldline.environment import ROOT
from model_plugins.manifest import merge_runtimes

PIN = re.compile(r"(?m)^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)")


def name_of(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def pins(file: str) -> dict[str, set[str]]:
    """Versions by package; a package may have one per Python version."""
    found: dict[str, set[str]] = {}
    for package, version in PIN.findall((ROOT / file).read_text()):
        found.setdefault(name_of(package), set()).add(version)
    return found


def test_every_line_is_an_exact_pin() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert [
        line for line in lines if line and not line.startswith("#") and not PIN.match(line)
    ] == []


def test_what_the_control_plane_installs_is_part_of_it() -> None:
    everything, control = pins("requirements.txt"), pins("requirements/control.txt")
    assert {name for name in control if control[name] - everything.get(name, set())} == set()
    assert set(control) & {"torch", "numpy", "scipy", "biotite"} == set()


def test_what_the_built_in_runtimes_ask_for_is_pinned() -> None:
    folders = [file.parent for file in ROOT.glob("model_plugins/*/runtime.toml")]
    everything = pins("requirements.txt")
    for spec in merge_runtimes(folders).values():
        for wish in (*spec.requirements, *spec.no_deps):
            name, _, version = wish.partition("==")
            assert name_of(name) in everything
            assert not version or version in everything[name_of(name)]


@pytest.mark.parametrize(
    "file", ["requirements.txt", "requirements/control.txt", "requirements/dev.txt"]
)
def test_no_registry_and_no_folder_of_a_machine_is_named(file: str) -> None:
    assert re.findall(r"https?://\S+|/tmp\S*|/home\S*|/root\S*", (ROOT / file).read_text()) == []
