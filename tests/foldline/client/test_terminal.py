"""On a real terminal: a bar with place, times and stage; results stay apart from it."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from uuid import uuid4

import pytest

from tests.foldline.client.conftest import Shell
from tests.house import House
from tests.worker_process import wait_until

pytestmark = pytest.mark.processes


class Terminal:
    """What a person sees of a program on a terminal of 120 columns."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        shell.environment |= {"TERM": "xterm-256color"}
        self.process = shell.start(
            *arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self._read = b""

    @property
    def told(self) -> str:
        while select.select([self._master], [], [], 0)[0]:
            try:
                chunk = os.read(self._master, 65536)
            except OSError:  # the program has gone
                break
            if not chunk:
                break
            self._read += chunk
        return self._read.decode(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def terminal(shell: Shell, *arguments: str) -> Iterator[Terminal]:
    screen = Terminal(shell, *arguments)
    try:
        yield screen
    finally:
        screen.close()


def inputs(folder: Path, **more: object) -> str:
    (folder / "in.json").write_text(json.dumps({"echo": uuid4().hex, **more}))
    return "in.json"


def test_the_bar_shows_place_time_and_stage(foldline: Shell, house: House) -> None:
    first = house.accepted(seconds=250)
    file = inputs(foldline.folder, progress=True, seconds=250)
    with terminal(foldline, "run", "sleepy", "-i", file) as screen:
        wait_until(lambda: "queued, next, start in " in screen.told)
        assert foldline("cancel", first).returncode == 0
        wait_until(lambda: "sleep, " in screen.told)
        wait_until(lambda: "done in " in screen.told)
        job_id = screen.told.split()[1]
        assert foldline("cancel", job_id).returncode == 0
        wait_until(lambda: screen.process.poll() is not None)
        assert "━" in screen.told
        assert screen.process.returncode == 7


def test_the_result_comes_after_the_bar(foldline: Shell) -> None:
    file = inputs(foldline.folder, progress=True, seconds=1)
    with terminal(foldline, "run", "sleepy", "-i", file) as screen:
        wait_until(lambda: screen.process.poll() is not None and screen.told.count("\n"))
        assert "━" in screen.told
        assert "succeeded" in screen.told
        assert screen.told.rstrip().endswith("}"), "the result comes last, on lines of its own"
        assert screen.process.returncode == 0


def test_ctrl_c_gives_the_terminal_back_as_it_was(foldline: Shell) -> None:
    file = inputs(foldline.folder, progress=True, seconds=250)
    with terminal(foldline, "run", "sleepy", "-i", file) as screen:
        wait_until(lambda: "sleep, " in screen.told)
        screen.process.send_signal(signal.SIGINT)
        wait_until(lambda: screen.process.poll() is not None)
        assert screen.process.returncode == 130
        assert "foldline wait" in screen.told
        hidden, shown = screen.told.count("\x1b[?25l"), screen.told.count("\x1b[?25h")
        assert hidden == shown, "the cursor is there again"
        job_id = screen.told.split()[1]
    assert foldline("cancel", job_id).returncode == 0


def test_a_hostile_echo_does_not_reach_the_terminal(foldline: Shell) -> None:
    file = inputs(foldline.folder, seconds=0, echo="\x9b31m\x1b]0;owned\x07[bold red]x[/]")
    with terminal(foldline, "run", "sleepy", "-i", file) as screen:
        wait_until(lambda: screen.process.poll() is not None and "owned" in screen.told)
        assert "\x1b]0" not in screen.told
        assert "\x9b" not in screen.told
        assert "[bold red]x[/]" in screen.told
