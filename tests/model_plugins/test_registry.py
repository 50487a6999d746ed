from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from model_plugins.registry import BUILTIN_ROOT, discover

BUILTIN = ("flash_abb", "proteinmpnn", "structure_score")
SLEEPY = Path(__file__).resolve().parents[1] / "plugins" / "sleepy"
Plugin = Callable[..., Path]


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    """Makes a plugin's folder of any place and name."""

    def make(place: str, *, name: str) -> Path:
        folder = tmp_path / place
        shutil.copytree(SLEEPY, folder)
        manifest = folder / "manifest.toml"
        manifest.write_text(manifest.read_text().replace('"sleepy"', f'"{name}"'))
        return folder

    return make


def announce(site: Path, value: str) -> None:
    info = site / "thing-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[foldline.plugins]\nthing = {value}\n")


def test_the_built_in_models_are_found() -> None:
    discovery = discover([BUILTIN_ROOT])
    assert tuple(manifest.name for manifest in discovery.found) == BUILTIN
    assert discovery.refused == ()


def test_several_roots_are_searched(plugin: Plugin, tmp_path: Path) -> None:
    plugin("one/a", name="zebra")
    plugin("two/b", name="ant")
    discovery = discover([tmp_path / "one", tmp_path / "two"])
    assert [manifest.name for manifest in discovery.found] == ["ant", "zebra"]


def test_a_folder_without_a_manifest_is_no_plugin(plugin: Plugin, tmp_path: Path) -> None:
    (tmp_path / "root" / "notes").mkdir(parents=True)
    plugin("root/a", name="ant")
    discovery = discover([tmp_path / "root"])
    assert len(discovery.found) == 1
    assert discovery.refused == ()


def test_a_bad_plugin_does_not_stand_in_the_way(plugin: Plugin, tmp_path: Path) -> None:
    plugin("root/a", name="ant")
    bad = plugin("root/b", name="../b")
    discovery = discover([tmp_path / "root"])
    assert [manifest.name for manifest in discovery.found] == ["ant"]
    (refusal,) = discovery.refused
    assert refusal.folder == bad
    assert "'../b'" in refusal.reason


def test_a_name_used_twice_is_refused_to_all_who_use_it(plugin: Plugin, tmp_path: Path) -> None:
    folders = {plugin("root/a", name="twin"), plugin("root/b", name="twin")}
    plugin("root/c", name="single")
    discovery = discover([tmp_path / "root"])
    assert [manifest.name for manifest in discovery.found] == ["single"]
    assert {refusal.folder for refusal in discovery.refused} == folders
    for refusal in discovery.refused:
        assert all(str(folder) in refusal.reason for folder in folders)


def test_a_root_named_twice_makes_no_twins(plugin: Plugin, tmp_path: Path) -> None:
    plugin("root/a", name="ant")
    discovery = discover([tmp_path / "root", tmp_path / "root" / ".." / "root"])
    assert len(discovery.found) == 1
    assert discovery.refused == ()


def test_a_missing_root_is_told(tmp_path: Path) -> None:
    (refusal,) = discover([tmp_path / "nowhere"]).refused
    assert refusal.reason == f"The plugin folder {tmp_path / 'nowhere'} is missing."


def test_an_installed_package_may_announce_a_plugin(plugin: Plugin, tmp_path: Path) -> None:
    plugin("site/thing/model", name="thing")
    announce(tmp_path / "site", "thing.model")
    discovery = discover([], site_packages=[tmp_path / "site"])
    assert [manifest.name for manifest in discovery.found] == ["thing"]
    assert "thing" not in sys.modules


@pytest.mark.parametrize("value", ["thing.nothing", "thing:Plugin", "..thing", "thing [x]"])
def test_an_entry_point_without_a_manifest_is_refused(
    plugin: Plugin, tmp_path: Path, value: str
) -> None:
    plugin("site/thing/model", name="thing")
    announce(tmp_path / "site", value)
    discovery = discover([], site_packages=[tmp_path / "site"])
    assert discovery.found == ()
    assert "does not name a package with a manifest.toml" in discovery.refused[0].reason
