"""`scripts/setup` on machines that lack something.

The Pythons here are small stand-ins on a PATH of their own: real old ones, or ones without
`venv`, cannot be had on demand. What they are asked is what the script really asks.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.worker_process import wait_until

ROOT = Path(__file__).resolve().parents[2]
TOOLS = (
    "sh",
    "dirname",
    "cat",
    "cksum",
    "df",
    "awk",
    "mkdir",
    "ls",
    "find",
    "rm",
    "mv",
    "du",
    "cut",
)

# Answers what the script asks; `-m venv` makes a folder whose python is the same stand-in.
STAND_IN = """#!/bin/sh
case "$*" in
    *version_info\\[:2\\]*) echo {version} ;;
    *'sys.version_info < (3, 11)'*) exit {too_old} ;;
    *'import venv, ensurepip'*) exit {no_venv} ;;
    *fcntl*) exec '{real}' "$@" ;;
    *'import pip'*) exit 0 ;;
    --version) echo Python {version} ;;
    '-m venv '*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    *'-m pip'*) echo "pip $*" >> pip.log; {pip} ;;
esac
"""


@dataclass(frozen=True, kw_only=True)
class Done:
    status: int
    said: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A folder with the script, and a PATH with its tools and whatever Pythons a test adds."""

    folder: Path
    bin: Path

    def add_python(
        self, name: str, version: str, *, no_venv: bool = False, pip: str = "exit 0"
    ) -> Path:
        minor = int(version.split(".")[1])
        file = self.bin / name
        file.write_text(
            STAND_IN.format(
                version=version,
                too_old=int(minor < 11),
                no_venv=int(no_venv),
                real=sys.executable,
                pip=pip,
            )
        )
        file.chmod(0o755)
        return file

    def start(self, *arguments: str, **changes: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.folder / "scripts" / "setup", *arguments],
            env={"PATH": str(self.bin), "FOLDLINE_MIN_DISK_MB": "1", **changes},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def setup(self, *arguments: str, **changes: str) -> Done:
        with self.start(*arguments, **changes) as process:
            said, _ = process.communicate(timeout=120)
        return Done(status=process.returncode, said=said)

    @property
    def pip_calls(self) -> list[str]:
        log = self.folder / "pip.log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    folder = tmp_path / "a folder with blanks"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    (folder / "requirements").mkdir()
    for name in ("requirements/control.txt", "requirements/dev.txt", "pyproject.toml"):
        (folder / name).write_text("first")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for tool in (*TOOLS, "cp"):
        found = shutil.which(tool)
        assert found, tool
        (bin_folder / tool).symlink_to(found)
    return Machine(folder=folder, bin=bin_folder)


def test_an_old_python_found_first_is_passed_over(machine: Machine) -> None:
    machine.add_python("python3.11", "3.9")  # whatever its name says
    machine.add_python("python3", "3.12")
    done = machine.setup()
    assert (done.status, "Python 3.12" in done.said) == (0, True), done.said


def test_only_old_pythons_are_told_with_their_version(machine: Machine) -> None:
    machine.add_python("python3", "3.9")
    done = machine.setup()
    assert done.status == 1
    assert "needs Python 3.11 or newer, and python3 is Python 3.9" in done.said


def test_no_python_at_all_is_told(machine: Machine) -> None:
    done = machine.setup()
    assert (done.status, "no Python was found" in done.said) == (1, True), done.said


def test_a_python_without_venv_is_told(machine: Machine) -> None:
    machine.add_python("python3", "3.11", no_venv=True)
    done = machine.setup()
    assert done.status == 1
    assert "python3 (Python 3.11) has no module 'venv'" in done.said


def test_a_python_with_venv_further_on_is_taken(machine: Machine) -> None:
    machine.add_python("python3.12", "3.12", no_venv=True)
    machine.add_python("python3", "3.11")
    assert "Python 3.11" in machine.setup().said


def test_the_python_that_is_named_comes_first(machine: Machine) -> None:
    machine.add_python("python3.13", "3.13")
    mine = machine.add_python("mine", "3.12")
    assert "Python 3.12" in machine.setup(PYTHON=str(mine)).said


def test_little_disk_is_told(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    done = machine.setup(FOLDLINE_MIN_DISK_MB="999999999")
    assert done.status == 1
    assert "MiB are free here" in done.said
    assert machine.pip_calls == []


def test_packages_come_by_hash_and_a_second_run_asks_nobody(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    assert machine.setup().status == 0
    calls = machine.pip_calls
    assert "--require-hashes -r requirements/control.txt" in calls[0]
    assert "--no-deps --no-build-isolation -e ." in calls[1]
    assert machine.setup() == Done(status=0, said="")
    assert machine.pip_calls == calls


def test_the_developers_tools_are_added_and_serve_both(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    machine.setup()
    machine.setup("--dev")
    assert "-r requirements/dev.txt" in machine.pip_calls[2]
    assert machine.setup() == Done(status=0, said="")


def test_new_pins_are_installed(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    machine.setup()
    (machine.folder / "requirements" / "control.txt").write_text("second")
    machine.setup()
    assert len(machine.pip_calls) == 4


def test_a_failed_run_is_begun_anew(machine: Machine) -> None:
    machine.add_python("python3", "3.11", pip="exit 1")
    done = machine.setup()
    assert (done.status, "could not install the packages" in done.said) == (1, True)
    (machine.folder / ".venv" / "half").touch()
    machine.add_python("python3", "3.11")
    assert machine.setup().status == 0
    assert not (machine.folder / ".venv" / "half").exists()


def test_ctrl_c_while_installing_is_told_and_begun_anew(machine: Machine) -> None:
    machine.add_python("python3", "3.11", pip="exec sleep 60")
    (machine.bin / "sleep").symlink_to(shutil.which("sleep") or "")
    with machine.start() as process:
        wait_until(lambda: machine.pip_calls)
        os.killpg(process.pid, signal.SIGINT)  # a terminal's Ctrl-C reaches the whole group
        said, _ = process.communicate(timeout=120)
    assert (process.returncode, "stopped; run it again" in said) == (130, True), said
    machine.add_python("python3", "3.11")
    assert machine.setup().status == 0


def test_two_at_once_are_told(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    (machine.folder / ".venv").mkdir()
    with open(machine.folder / ".venv" / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = machine.setup()
    assert (done.status, "another setup is running" in done.said) == (1, True), done.said


def test_an_unknown_argument_is_told(machine: Machine) -> None:
    done = machine.setup("--prod")
    assert (done.status, "unknown argument '--prod'" in done.said) == (1, True)
