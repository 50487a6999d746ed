"""Runtimes made for real, from packages that lie in a folder instead of a registry."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from foldline.fleet import packages, runtimes
from foldline.fleet.packages import RuntimeTrouble

SLEEPY = Path(__file__).resolve().parents[2] / "plugins" / "sleepy"
MakePlugin = Callable[..., Path]


@pytest.fixture(autouse=True)
def own_place(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with a blank in its name, one plugin folder, and a registry of our own."""
    settings.HOME = tmp_path / "state folder"
    settings.PLUGIN_DIRS = [tmp_path / "plugins"]
    registry = tmp_path / "registry"
    registry.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(registry))
    monkeypatch.delenv("TORCH_INDEX_URL", raising=False)
    return registry


@pytest.fixture
def plugin(tmp_path: Path) -> MakePlugin:
    """A plugin whose runtime `tiny` asks for what the test says."""

    def make(*, weights: str = "", **wishes: object) -> Path:
        folder = tmp_path / "plugins" / "sleepy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(SLEEPY, folder)
        manifest = (folder / "manifest.toml").read_text()
        runtime = next(line for line in manifest.splitlines() if line.startswith("runtime"))
        (folder / "manifest.toml").write_text(
            manifest.replace(runtime, 'runtime = "tiny"') + weights
        )
        lines = [f"{key} = {value!r}" for key, value in wishes.items()]  # Python's is TOML's
        (folder / "runtime.toml").write_text('name = "tiny"\n' + "\n".join(lines) + "\n")
        return folder

    return make


def wheel(registry: Path, name: str, version: str, **files: str) -> None:
    """A package of a few files, as pip takes it."""
    info = f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_hash(text)},{len(text)}\n" for path, text in content.items())
    registry.mkdir(exist_ok=True)
    with zipfile.ZipFile(registry / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")


def _hash(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return "sha256=" + digest.decode().rstrip("=")


def install() -> list[str]:
    said: list[str] = []
    runtimes.install("tiny", say=said.append)
    return said


def asks(code: str) -> str:
    """What the runtime's python prints."""
    command = [str(runtimes.interpreter("tiny")), "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_runtime_is_made_once(plugin: MakePlugin, own_place: Path) -> None:
    wheel(own_place, "einops", "0.8.2", **{"einops/__init__.py": ""})
    plugin(requirements=["einops"])
    first = install()
    assert "runtime tiny: installing einops" in first
    assert asks("import importlib.metadata as m; print(m.version('einops'))") == "0.8.2"
    shutil.rmtree(own_place)  # a second run asks nobody
    assert install() == [f"runtime tiny: ready in {runtimes.folder_of('tiny')}"]


def test_versions_come_from_requirements_txt(plugin: MakePlugin, own_place: Path) -> None:
    for version in ("0.8.2", "99.0"):
        wheel(own_place, "einops", version)
    plugin(requirements=["einops"])
    install()
    assert asks("import importlib.metadata as m; print(m.version('einops'))") == "0.8.2"


def test_a_new_wish_brings_it_up_to_date(plugin: MakePlugin, own_place: Path) -> None:
    plugin()
    install()
    marker = runtimes.folder_of("tiny") / "marker"
    marker.touch()
    wheel(own_place, "einops", "0.8.2")
    plugin(no_deps=["einops==0.8.2"])
    assert not runtimes.runtimes()["tiny"].is_current
    install()
    assert asks("import importlib.metadata as m; print(m.version('einops'))") == "0.8.2"
    assert marker.exists()


def test_what_an_interruption_left_is_made_anew(plugin: MakePlugin) -> None:
    plugin()
    install()
    folder = runtimes.folder_of("tiny")
    (folder / runtimes.STAMP).unlink()
    (folder / "half").touch()
    assert "runtime tiny: making the environment" in install()
    assert not (folder / "half").exists()


def test_a_package_that_cannot_be_had_is_told_and_leaves_no_stamp(plugin: MakePlugin) -> None:
    plugin(requirements=["einops"])
    with pytest.raises(RuntimeTrouble, match=r"Could not install einops:\n(.|\n)*einops"):
        install()
    assert not runtimes.runtimes()["tiny"].is_current


def test_a_missing_interpreter_is_told(plugin: MakePlugin) -> None:
    plugin(python=">=3.99")
    with pytest.raises(RuntimeTrouble, match=r"needs Python >=3\.99, and only 3\.\d+"):
        install()


def test_little_disk_is_told(plugin: MakePlugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_MIN_DISK_MB", str(10**9))
    plugin()
    with pytest.raises(RuntimeTrouble, match=r"Only \d+ MiB are free .* FOLDLINE_MIN_DISK_MB"):
        install()


def test_an_unknown_runtime_is_told(plugin: MakePlugin) -> None:
    plugin()
    with pytest.raises(RuntimeTrouble, match="No plugin asks for a runtime 'no'; known are"):
        runtimes.install("no", say=lambda _text: None)


WEIGHTS = """
[[weights]]
name = "small"
package = "einops"
path = "{path}"
sha256 = "{sha256}"
"""


@pytest.mark.parametrize(
    ("path", "sha256", "told"),
    [
        ("weights.pt", "0" * 64, "are not the reviewed ones: .*einops/weights.pt has SHA-256 2d71"),
        ("none.pt", "0" * 64, "are missing: the package einops has no file none.pt"),
    ],
)
def test_wrong_weights_are_told(
    plugin: MakePlugin, own_place: Path, path: str, sha256: str, told: str
) -> None:
    wheel(own_place, "einops", "0.8.2", **{"einops/weights.pt": "x"})
    plugin(requirements=["einops"], weights=WEIGHTS.format(path=path, sha256=sha256))
    with pytest.raises(RuntimeTrouble, match=told):
        install()
    assert not runtimes.runtimes()["tiny"].is_current


def test_the_reviewed_weights_are_fine(plugin: MakePlugin, own_place: Path) -> None:
    wheel(own_place, "einops", "0.8.2", **{"einops/weights.pt": "x"})
    sha256 = hashlib.sha256(b"x").hexdigest()
    plugin(requirements=["einops"], weights=WEIGHTS.format(path="weights.pt", sha256=sha256))
    install()


def test_torch_comes_from_the_index_that_is_named(
    plugin: MakePlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index" / "torch"
    folder.parent.mkdir()
    wheel(folder, "torch", "2.13.0+cu1")
    file = next(folder.iterdir()).name
    (folder / "index.html").write_text(f'<a href="{file.replace("+", "%2B")}">{file}</a>')
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("TORCH_INDEX_URL", folder.parent.as_uri())
    plugin(torch="auto")
    assert "runtime tiny: installing torch==2.13.0 from TORCH_INDEX_URL" in install()
    assert asks("import importlib.metadata as m; print(m.version('torch'))") == "2.13.0+cu1"


def test_without_a_driver_torch_is_a_cpu_build(plugin: MakePlugin, own_place: Path) -> None:
    if packages.has_nvidia_driver():
        pytest.skip("this machine has an NVIDIA driver")
    for version in ("2.13.0", "2.13.0+cpu"):
        wheel(own_place, "torch", version)
    plugin(torch="auto", requirements=["torch"])
    install()
    assert asks("import importlib.metadata as m; print(m.version('torch'))") == "2.13.0+cpu"


def test_without_a_cpu_build_the_size_of_the_other_is_told(
    plugin: MakePlugin, own_place: Path
) -> None:
    wheel(own_place, "torch", "2.13.0")
    plugin(torch="cpu", requirements=["torch"])
    said = install()
    assert any("3 GB to" in line and "TORCH_INDEX_URL" in line for line in said)


def test_a_runtime_is_removed(plugin: MakePlugin) -> None:
    plugin()
    install()
    assert runtimes.remove("tiny")
    assert not runtimes.folder_of("tiny").exists()
    assert not runtimes.remove("tiny")


@pytest.mark.parametrize("name", ["..", "", ".", "../secrets", "/etc"])
def test_only_a_runtime_is_removed(name: str) -> None:
    with pytest.raises(RuntimeTrouble, match="is not the name of a runtime"):
        runtimes.remove(name)
