from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from model_plugins import loading
from model_plugins.loading import LoadFailed, WeightsMismatch, import_plugin, verified_weights

SOURCE = (
    "class Plugin:\n    def load(self, context): ...\n    def infer(self, inputs, context): ...\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plugin.py").write_text(SOURCE)
    return tmp_path


def test_a_foreign_folder_becomes_a_package_of_its_own(folder: Path) -> None:
    (folder / "__init__.py").write_text("HERE = __name__\n")

    plugin = import_plugin(name="foreign", folder=folder, entry="plugin:Plugin")

    assert type(plugin).__module__ == "foldline_plugin_foreign.plugin"
    assert sys.modules["foldline_plugin_foreign"].HERE == "foldline_plugin_foreign"


def test_a_folder_beside_this_package_keeps_its_ordinary_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = folder / "inside_builtins"
    inside.mkdir()
    (inside / "plugin.py").write_text(SOURCE)
    monkeypatch.setattr(loading, "BUILTIN_ROOT", folder)
    monkeypatch.setattr("model_plugins.__path__", [str(folder)])

    plugin = import_plugin(name="inside_builtins", folder=inside, entry="plugin:Plugin")

    assert type(plugin).__module__ == "model_plugins.inside_builtins.plugin"


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="does not exist"):
        import_plugin(name="nowhere", folder=tmp_path / "nowhere", entry="plugin:Plugin")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that must not be imported, with weights deep inside."""
    part = tmp_path / "deep_weights" / "part"
    part.mkdir(parents=True)
    (tmp_path / "deep_weights" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (part / "w.bin").write_bytes(b"weights")
    monkeypatch.syspath_prepend(str(tmp_path))
    return part


def weight(*, package: str, path: str, sha256: str = "0" * 64) -> list[dict[str, str]]:
    return [{"name": "main", "package": package, "path": path, "sha256": sha256}]


def test_weights_may_lie_in_a_package_inside_a_package(package: Path) -> None:
    right = hashlib.sha256(b"weights").hexdigest()

    found = verified_weights(weight(package="deep_weights.part", path="w.bin", sha256=right))

    assert found == {"main": package / "w.bin"}


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("where", "path", "words"),
    [
        ("deep_weights", "part/w.bin", "expected 0000"),
        ("deep_weights", "part/absent.bin", "No such file"),
        ("no_such_package", "w.bin", "not installed"),
    ],
)
def test_wrong_weights_are_named(where: str, path: str, words: str) -> None:
    with pytest.raises(WeightsMismatch, match=words):
        verified_weights(weight(package=where, path=path))
