"""The keeper alone, around small commands instead of a plugin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker_process import PATIENCE_S

KEEPER = Path(__file__).resolve().parents[2] / "tasks" / "keeper.py"
WaitFor = Callable[[Callable[[], object]], None]
IsRunning = Callable[[int], bool]

SLEEP = "import time; time.sleep(3600)"
ORPHAN = """
import os, sys, time
reads, writes = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.write(writes, str(os.getpid()).encode())
        time.sleep(3600)
    os._exit(0)
print(os.read(reads, 20).decode(), flush=True)
"""


class Kept:
    """A keeper with `python -c CODE` under it."""

    def __init__(self, code: str, *, command: list[str] | None = None) -> None:
        lifeline, self._lifeline = os.pipe()
        runs = command or [sys.executable, "-S", "-c", code]
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-I", str(KEEPER), str(lifeline), "--", *runs],
            pass_fds=(lifeline,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        os.close(lifeline)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, data: bytes) -> None:
        os.write(self._lifeline, data)

    def cut(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def keep() -> Iterator[Callable[..., Kept]]:
    kept: list[Kept] = []

    def start(code: str = "", **options: Any) -> Kept:
        kept.append(Kept(code, **options))
        return kept[-1]

    yield start
    for one in kept:
        one.cut()
        one.end()
        assert one.process.stdout is not None
        one.process.stdout.close()


@pytest.mark.parametrize("code", [0, 3, 137])
def test_it_leaves_with_the_exit_code_of_its_plugin(keep: Any, code: int) -> None:
    assert keep(f"raise SystemExit({code})").end() == code


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_it_leaves_by_the_signal_that_ended_its_plugin(keep: Any, number: signal.Signals) -> None:
    assert keep(f"import os; os.kill(os.getpid(), {int(number)})").end() == -number


def test_a_command_that_cannot_be_started_is_said(keep: Any, tmp_path: Path) -> None:
    kept = keep(command=[str(tmp_path / "nothing")])

    assert "cannot start" in kept.line()
    assert kept.end() == 127


def test_the_end_of_the_lifeline_is_the_end_of_the_plugin(keep: Any) -> None:
    kept = keep(SLEEP)

    kept.cut()

    assert kept.end() == -signal.SIGKILL


def test_an_orphan_in_a_session_of_its_own_ends_with_the_plugin(
    keep: Any, is_running: IsRunning
) -> None:
    kept = keep(ORPHAN)
    orphan = int(kept.line())

    assert kept.end() == 0
    assert not is_running(orphan)


def test_an_orphan_in_a_session_of_its_own_ends_with_the_lifeline(
    keep: Any, is_running: IsRunning
) -> None:
    kept = keep(ORPHAN + SLEEP)
    orphan = int(kept.line())
    assert is_running(orphan)

    kept.cut()

    assert kept.end() == -signal.SIGKILL
    assert not is_running(orphan)


def test_a_t_asks_the_whole_group_to_end(keep: Any) -> None:
    kept = keep(
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "child = os.fork()\n"
        "if child: print('ready', flush=True)\n"
        "signal.sigwait({signal.SIGTERM})\n"
        "if child: os.waitpid(child, 0)\n"
        "os._exit(5)"
    )
    assert kept.line() == "ready"

    kept.tell(b"T")

    assert kept.end() == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_to_the_keeper_do_not_touch_it(keep: Any, number: signal.Signals) -> None:
    kept = keep("print('ready', flush=True);" + SLEEP)
    assert kept.line() == "ready"

    kept.process.send_signal(number)
    kept.tell(b"T")

    assert kept.end() == -signal.SIGTERM


def test_the_plugin_handles_signals_as_usual_and_learns_its_keeper(keep: Any) -> None:
    kept = keep(
        "import os, signal, sys\n"
        "print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,"
        " int(sys.argv[-1]) == os.getppid(), os.getsid(0) == os.getpid())"
    )

    assert kept.line() == "True True True"


def test_the_plugin_holds_no_end_of_the_lifeline(keep: Any) -> None:
    kept = keep(
        "import os\nheld = sorted(os.listdir('/proc/self/fd'), key=int)\nprint(held[:3], len(held))"
    )

    assert kept.line() == "['0', '1', '2'] 4"  # the fourth reads the folder


def test_the_plugin_cannot_gain_rights_and_dies_first_when_memory_runs_out(keep: Any) -> None:
    kept = keep(
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "caps = int(status['CapBnd'], 16)\n"
        "print(status['NoNewPrivs'].strip(), [n for n in (19, 21, 38) if caps >> n & 1],"
        " open('/proc/self/oom_score_adj').read().strip())"
    )

    gains, capabilities, score = kept.line().split(" ", 2)
    assert gains == "1"
    assert score == "500"
    if os.getuid() == 0:
        assert capabilities == "[]"


def test_it_needs_nothing_but_the_standard_library() -> None:
    seen = subprocess.run(
        [sys.executable, "-S", "-I", "-X", "importtime", str(KEEPER)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "IndexError" in seen.stderr  # it came as far as its missing arguments
    assert not {"django", "celery", "tasks", "site"} & {
        line.rpartition("|")[2].strip().partition(".")[0] for line in seen.stderr.splitlines()
    }
