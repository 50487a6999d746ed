"""pip inside a runtime's environment, and which torch it takes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
from packaging.specifiers import SpecifierSet

# Worth a line of progress: what takes long.
_LARGE_FILE = re.compile(r"Downloading (\S+?)(?:\.metadata)? \((\d+(?:\.\d+)?) MB\)")
_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_SITE_PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"


class RuntimeTrouble(Exception):
    """A runtime cannot be made or used; the message is a sentence for whoever asked."""


def has_nvidia_driver() -> bool:
    """Can this machine's driver be asked for its cards?"""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    pynvml.nvmlShutdown()
    return True


def find_python(specifier: str) -> str:
    """An interpreter that fits, this one first. Raises RuntimeTrouble naming what was found."""
    wanted = SpecifierSet(specifier)
    found: list[str] = []
    for candidate in _interpreters():
        answer = subprocess.run(
            [candidate, "-c", _VERSION], capture_output=True, text=True, check=False
        )
        version = answer.stdout.strip()
        if answer.returncode == 0 and wanted.contains(version):
            return candidate
        if answer.returncode == 0 and version not in found:
            found.append(version)
    raise RuntimeTrouble(
        f"The runtime needs Python {specifier}, and only {', '.join(found)} was found. Install "
        "one that fits and put it on PATH."
    )


def _interpreters() -> Iterator[str]:
    yield sys.executable
    for name in [*(f"python3.{minor}" for minor in range(11, 20)), "python3"]:
        if path := shutil.which(name):
            yield path


class Pip:
    """Fills one environment. Every step raises RuntimeTrouble when it fails."""

    def __init__(self, folder: Path, *, constraints: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.constraints = constraints
        self.say = say
        self.python = folder / "bin" / "python"

    def make_environment(self, python: str) -> None:
        self.say("making the environment")
        shutil.rmtree(self.folder, ignore_errors=True)
        self._run([python, "-m", "venv", str(self.folder)], doing="make an environment")

    def install(self, *requirements: str) -> None:
        """Packages with what they need, at the versions of the constraints."""
        if requirements:
            self.say("installing " + ", ".join(requirements))
            self._pip("-c", str(self.constraints), *requirements)

    def install_alone(self, *requirements: str) -> None:
        """Packages whose own wishes are wrong and therefore ignored."""
        if requirements:
            self.say("installing " + ", ".join(requirements) + " without dependencies")
            self._pip("--no-deps", *requirements)

    def install_torch(self, *, cuda: bool) -> None:
        """TORCH_INDEX_URL decides; else a driver takes the default build, none a CPU build.

        Only torch itself is installed: `install` completes it from the ordinary index.
        """
        pin = self._pin("torch")
        index = os.environ.get("TORCH_INDEX_URL")
        if index:
            self.say(f"installing {pin} from TORCH_INDEX_URL")
            self._pip("--no-deps", "--index-url", index, pin)
        elif cuda or sys.platform != "linux":
            self.say(f"installing {pin}")
            self._pip("--no-deps", pin)
        elif not self._has_cpu_torch(pin):
            self._install_cpu_torch(pin)

    def _has_cpu_torch(self, pin: str) -> bool:
        shown = self._ask("import importlib.metadata as m; print(m.version('torch'))")
        return shown == pin.partition("==")[2] + "+cpu"

    def _install_cpu_torch(self, pin: str) -> None:
        self.say(f"installing {pin}, the CPU build (no NVIDIA driver here)")
        try:
            self._pip("--no-deps", f"{pin}+cpu")
        except RuntimeTrouble:
            self.say(
                "pip's index has no CPU build, so the default one is taken: roughly 3 GB to "
                "download and 6 GB on disk. TORCH_INDEX_URL can name an index with CPU builds."
            )
            self._pip("--no-deps", pin)

    def site_packages(self) -> Path:
        return Path(self._ask(_SITE_PACKAGES))

    def _pin(self, package: str) -> str:
        found = re.search(rf"(?m)^{package}==[^\s;]+", self.constraints.read_text())
        if found is None:
            raise RuntimeTrouble(f"{self.constraints} has no version of {package}.")
        return found[0]

    def _ask(self, code: str) -> str:
        """What a line of Python prints inside the environment; "" when it fails."""
        answer = subprocess.run(
            [self.python, "-I", "-c", code], capture_output=True, text=True, check=False
        )
        return answer.stdout.strip()

    def _pip(self, *arguments: str) -> None:
        options = ["--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off"]
        command = [str(self.python), "-m", "pip", *options, *arguments]
        self._run(command, doing=f"install {arguments[-1]}")

    def _run(self, command: list[str], *, doing: str) -> None:
        last: list[str] = []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            try:
                for line in process.stdout or ():
                    last = [*last[-9:], line.rstrip()]
                    if large := _LARGE_FILE.search(line):
                        self.say(f"  downloading {large[1]} ({large[2]} MB)")
            except BaseException:
                process.terminate()  # Ctrl-C may have reached this process alone
                raise
        if process.returncode:
            raise RuntimeTrouble(f"Could not {doing}:\n" + "\n".join(last))
