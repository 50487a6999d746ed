"""The supervisor on small programs that do what real ones may do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from foldline.ops.programs import LEASH, Program
from foldline.ops.supervisor import QUICK_DEATHS, Supervisor, SupervisorError
from tests.foldline.ops.conftest import wait_until
from tests.worker_process import has_ended

FOR_EVER = "import time; print('here', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOR_EVER}"
WITH_CHILD = (
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', "
    f"{FOR_EVER!r}]); print(child.pid, flush=True); child.wait()"
)


@dataclass(kw_only=True)
class Told:
    """What a supervisor said, and what its programs wrote."""

    sentences: list[str] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)

    def wrote(self, name: str) -> list[str]:
        return [line for who, line in self.lines if who == name]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def supervisor(told: Told) -> Iterator[Supervisor]:
    made = Supervisor(
        say=told.sentences.append,
        write=lambda name, line: told.lines.append((name, line)),
        pause_s=0.02,
    )
    yield made
    made.stop(urgent=lambda: True)


def program(name: str, code: str, **changes: object) -> Program:
    wrote = changes.pop("ready", lambda _pid: True)
    return Program(
        name=name,
        command=(sys.executable, "-c", code),
        ready=wrote,  # type: ignore[arg-type]  # taken out of a mapping of objects
        **changes,  # type: ignore[arg-type]  # as above
    )


def pid_of(supervisor: Supervisor, name: str) -> int:
    child = supervisor.places[name].child
    assert child is not None
    return child.process.pid


def beat_until(supervisor: Supervisor, condition: Callable[[], object]) -> None:
    def beaten() -> object:
        supervisor.beat()
        return condition()

    wait_until(beaten)


def test_lines_come_with_their_programs_name(supervisor: Supervisor, told: Told) -> None:
    supervisor.start(program("greeter", FOR_EVER))
    wait_until(lambda: told.wrote("greeter") == ["here"])


def test_start_waits_until_the_program_is_ready(supervisor: Supervisor, told: Told) -> None:
    supervisor.start(program("slow", FOR_EVER, ready=lambda _pid: told.wrote("slow")))
    assert told.wrote("slow") == ["here"]
    assert "slow is ready" in told.sentences[-1]


def test_a_program_that_ends_before_it_is_ready_is_named(supervisor: Supervisor) -> None:
    with pytest.raises(SupervisorError, match="broken ended with status 3 before it was ready"):
        supervisor.start(program("broken", "raise SystemExit(3)", ready=lambda _pid: False))


def test_a_program_that_is_never_ready_is_named(supervisor: Supervisor) -> None:
    with pytest.raises(SupervisorError, match="late was not ready within 0 s"):
        supervisor.start(program("late", FOR_EVER, ready=lambda _pid: False, ready_within_s=0.3))


def test_a_program_that_dies_is_started_again(supervisor: Supervisor, told: Told) -> None:
    supervisor.start(program("mortal", FOR_EVER, ready=lambda _pid: told.wrote("mortal")))
    first = pid_of(supervisor, "mortal")
    os.kill(first, signal.SIGKILL)
    beat_until(supervisor, lambda: len(told.wrote("mortal")) == 2)
    assert pid_of(supervisor, "mortal") != first
    assert any("mortal was ended by signal 9" in sentence for sentence in told.sentences)


def test_quick_deaths_in_a_row_stop_it(supervisor: Supervisor, told: Told) -> None:
    supervisor.add(program("crasher", "print('up', flush=True); raise SystemExit(1)"))
    with pytest.raises(SupervisorError, match=f"ended with status 1 {QUICK_DEATHS} times in a row"):
        beat_until(supervisor, lambda: False)
    wait_until(lambda: len(told.wrote("crasher")) == QUICK_DEATHS)


def test_stop_goes_in_reverse_order(supervisor: Supervisor, told: Told) -> None:
    says_bye = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('bye')))"
        "; print('here', flush=True); time.sleep(600)"
    )
    for name in ("first", "second", "third"):
        ready = lambda _pid, name=name: told.wrote(name)  # noqa: E731 - of this one
        supervisor.start(program(name, says_bye, ready=ready, grace_s=120))
    supervisor.stop(urgent=lambda: False)
    wait_until(lambda: [line for _, line in told.lines].count("bye") == 3)
    assert [name for name, line in told.lines if line == "bye"] == ["third", "second", "first"]


def test_a_program_that_does_not_stop_is_killed_after_its_grace(
    supervisor: Supervisor, told: Told
) -> None:
    supervisor.start(program("deaf", DEAF, grace_s=0.2, ready=lambda _pid: told.wrote("deaf")))
    pid = pid_of(supervisor, "deaf")
    supervisor.stop(urgent=lambda: False)
    assert not psutil.pid_exists(pid)
    assert "deaf did not end within 0 s: killed" in told.sentences


def test_an_urgent_stop_waits_for_nobody(supervisor: Supervisor, told: Told) -> None:
    supervisor.start(program("deaf", DEAF, grace_s=600, ready=lambda _pid: told.wrote("deaf")))
    began = time.monotonic()
    supervisor.stop(urgent=lambda: True)
    assert time.monotonic() - began < 200


def test_children_that_a_dead_program_leaves_are_ended(supervisor: Supervisor, told: Told) -> None:
    supervisor.start(program("parent", WITH_CHILD, ready=lambda _pid: told.wrote("parent")))
    child = psutil.Process(int(told.wrote("parent")[0]))
    os.kill(pid_of(supervisor, "parent"), signal.SIGKILL)
    beat_until(supervisor, lambda: has_ended(child))


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_nothing_outlives_a_killed_parent(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = f"import os, pathlib, time; pathlib.Path({str(note)!r}).write_text(str(os.getpid()))"
    parent = (
        "import os, subprocess, sys, time; subprocess.Popen([sys.executable, "
        f"{str(LEASH)!r}, str(os.getpid()), '15', sys.executable, '-c', "
        f"{child + '; time.sleep(600)'!r}]); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        wait_until(lambda: note.exists() and note.read_text())
        leashed = psutil.Process(int(note.read_text()))
        process.kill()
    wait_until(lambda: has_ended(leashed))
