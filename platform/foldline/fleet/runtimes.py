"""Runtimes: the Python environments that plugins run in, apart from the control plane's.

Each is `runtimes/NAME` in the state folder. What belongs into it comes from the plugins'
`runtime.toml`; the versions come from requirements.txt. A stamp, written last, says that it
is whole and what it was made for.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from foldline.environment import ROOT
from foldline.fleet.packages import Pip, RuntimeTrouble, find_python, has_nvidia_driver
from foldline.fleet.weights import check_weights
from model_plugins.manifest import Manifest, ManifestError, RuntimeSpec, merge_runtimes
from model_plugins.registry import BUILTIN_ROOT, discover

CONSTRAINTS = ROOT / "requirements.txt"
STAMP = ".installed.json"
NEEDED_MB = 3 * 1024
CUDA_NEEDED_MB = 9 * 1024

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What a runtime should be: its plugins' wishes, and the plugins that asked."""

    spec: RuntimeSpec
    plugins: tuple[Manifest, ...]

    @property
    def folder(self) -> Path:
        return folder_of(self.spec.name)

    def fingerprint(self) -> str:
        """Changes with everything that would make another environment."""
        wanted = {
            "spec": asdict(self.spec),
            "constraints": CONSTRAINTS.read_text(),
            "driver": self.spec.torch == "auto" and has_nvidia_driver(),
            "torch_index": os.environ.get("TORCH_INDEX_URL", ""),
            "folder": str(self.folder),  # an environment cannot be moved
            "weights": [asdict(weight) for plugin in self.plugins for weight in plugin.weights],
        }
        return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()

    @property
    def is_current(self) -> bool:
        return interpreter(self.spec.name).exists() and stamp_of(self.folder) == self.fingerprint()


def folder_of(name: str) -> Path:
    home: Path = settings.HOME
    return home / "runtimes" / name


def interpreter(name: str) -> Path:
    """Where a runtime's python is, or would be."""
    return folder_of(name) / "bin" / "python"


def stamp_of(folder: Path) -> str | None:
    """The fingerprint a finished environment was made for; None for an unfinished one."""
    try:
        return str(json.loads((folder / STAMP).read_text())["fingerprint"])
    except (OSError, ValueError, KeyError):
        return None


def runtimes() -> Mapping[str, Runtime]:
    """Every runtime that a plugin asks for, by name. Raises RuntimeTrouble."""
    found = discover([BUILTIN_ROOT, *settings.PLUGIN_DIRS]).found
    folders = [plugin.folder for plugin in found if (plugin.folder / "runtime.toml").exists()]
    try:
        specs = merge_runtimes(folders)
    except ManifestError as error:
        raise RuntimeTrouble(str(error)) from error
    return {
        name: Runtime(spec=spec, plugins=tuple(p for p in found if p.runtime == name))
        for name, spec in specs.items()
    }


def install(name: str, *, say: Say) -> None:
    """Make the runtime, or bring it up to date; at once when it is current.

    Raises RuntimeTrouble with a sentence. Interrupted, it leaves an environment without a
    stamp, which the next call makes anew.
    """
    known = runtimes()
    if name not in known:
        raise RuntimeTrouble(
            f"No plugin asks for a runtime {name!r}; known are {', '.join(sorted(known)) or '-'}."
        )
    runtime = known[name]
    with _alone(runtime.folder):
        if not runtime.is_current:
            _build(runtime, say=say)
    say(f"runtime {name}: ready in {runtime.folder}")


def remove(name: str) -> bool:
    """Delete a runtime's environment; False when there was none. Raises RuntimeTrouble."""
    folder = folder_of(name)
    if folder.parent != settings.HOME / "runtimes" or folder.name in ("", ".", ".."):
        raise RuntimeTrouble(f"{name!r} is not the name of a runtime.")
    if not folder.is_dir():
        return False
    with _alone(folder):
        (folder / STAMP).unlink(missing_ok=True)
        shutil.rmtree(folder)
    return True


def _build(runtime: Runtime, *, say: Say) -> None:
    spec, folder = runtime.spec, runtime.folder
    python = find_python(spec.python)
    driver = spec.torch == "auto" and has_nvidia_driver()
    _check_disk(folder, needed_mb=CUDA_NEEDED_MB if driver else NEEDED_MB)
    finished_before = stamp_of(folder) is not None
    (folder / STAMP).unlink(missing_ok=True)
    pip = Pip(folder, constraints=CONSTRAINTS, say=lambda text: say(f"runtime {spec.name}: {text}"))
    if not finished_before:
        pip.make_environment(python)
    if spec.torch != "none":
        pip.install_torch(cuda=driver)
    pip.install(*spec.requirements)
    pip.install_alone(*spec.no_deps)
    check_weights(runtime.plugins, site_packages=pip.site_packages())
    draft = folder / f"{STAMP}.draft"
    draft.write_text(json.dumps({"fingerprint": runtime.fingerprint()}))
    draft.rename(folder / STAMP)


def _check_disk(folder: Path, *, needed_mb: int) -> None:
    needed_mb = int(os.environ.get("FOLDLINE_MIN_DISK_MB") or needed_mb)
    free_mb = shutil.disk_usage(folder.parent).free // 2**20
    if free_mb < needed_mb:
        raise RuntimeTrouble(
            f"Only {free_mb} MiB are free in {folder.parent}, and the runtime needs {needed_mb}. "
            "Make room, set FOLDLINE_HOME to a folder on another disk, or set "
            "FOLDLINE_MIN_DISK_MB lower if you know better."
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One change of a runtime at a time; a second one waits."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".{folder.name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
