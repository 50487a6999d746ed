"""One program that `manage.py up` keeps running: what it is, and its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from foldline.environment import ROOT

LEASH = Path(__file__).with_name("leash.py")


def at_once(_pid: int) -> bool:
    """A program that is ready as soon as it runs."""
    return True


@dataclass(frozen=True, kw_only=True)
class Program:
    """How to start a program, tell that it is ready, and end it.

    `ready` gets its process id. `grace_s`: seconds it may take to end after SIGTERM.
    `orphan_signal`: what it gets when the supervisor is killed.
    """

    name: str
    command: tuple[str, ...]
    ready: Callable[[int], bool] = at_once
    ready_within_s: float = 60
    grace_s: float = 10
    orphan_signal: int = signal.SIGTERM
    environment: Mapping[str, str] = field(default_factory=dict)


class Child:
    """A running `Program`. Its output goes to `write`, line by line, from a thread."""

    def __init__(self, program: Program, *, write: Callable[[str, str], None] | None) -> None:
        self.program = program
        self.started_at = time.monotonic()
        self.ready = False
        leash = (sys.executable, "-S", "-E", str(LEASH), str(os.getpid()))
        self.process = subprocess.Popen(
            [*leash, str(program.orphan_signal), *program.command],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **program.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if write else None,
            stderr=subprocess.STDOUT if write else None,
            start_new_session=True,  # Ctrl-C in the terminal reaches the supervisor alone
        )
        self._pump = Thread(target=self._forward, args=(write,), daemon=True)
        self._pump.start()

    def _forward(self, write: Callable[[str, str], None] | None) -> None:
        if write is None or self.process.stdout is None:
            return
        with self.process.stdout as lines:
            for line in lines:
                write(self.program.name, line.decode("utf-8", "replace").rstrip("\n"))

    @property
    def status(self) -> int | None:
        """Exit status, None while it runs."""
        return self.process.poll()

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.started_at

    def look(self) -> bool:
        """True from the first time the program said that it is ready."""
        self.ready = self.ready or (self.status is None and self.program.ready(self.process.pid))
        return self.ready

    def ask_to_end(self) -> None:
        if self.status is None:
            self.process.terminate()

    def end_now(self) -> None:
        """Kill what is left of its process group, and collect it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._pump.join(timeout=2)
