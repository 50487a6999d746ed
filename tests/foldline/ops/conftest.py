"""Foldline as a person starts it: a state folder and ports of its own, as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.redis_server import free_port
from tests.worker_process import has_ended

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 120.0


def wait_until(
    condition: Callable[[], object], *, within_s: float = PATIENCE_S, why: Callable[[], str] = str
) -> None:
    """Until it is true; `why` tells what to print when it never is."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition never came true {why()}"
        time.sleep(0.02)


def get(url: str, **request: Any) -> httpx.Response:
    return httpx.get(url, timeout=PATIENCE_S, **request)


@dataclass(kw_only=True)
class Command:
    """A running command; `lines` grow while it writes."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    family: set[psutil.Process] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, words: str) -> None:
        """Until it has written these words; fails with its output when it ends before."""
        wait_until(lambda: words in self.text or self.process.poll() is not None)
        assert words in self.text, self.text

    def note_family(self) -> set[psutil.Process]:
        """Remember the processes it has started, so that none can be missed later."""
        self.family |= set(psutil.Process(self.process.pid).children(recursive=True))
        return self.family

    def ended(self, *, within_s: float = PATIENCE_S) -> int:
        status = self.process.wait(within_s)
        self._reader.join(PATIENCE_S)
        return status

    def survivors(self) -> list[psutil.Process]:
        return [process for process in self.family if not has_ended(process)]

    def until_alone(self) -> None:
        """Until none of its family is left: who was killed takes a moment to go."""
        wait_until(lambda: not self.survivors(), why=lambda: f"{self.survivors()}\n{self.text}")


StartCommand = Callable[..., Command]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "state folder"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(home: Path) -> Mapping[str, str]:
    """What `manage.py up` needs in order not to meet another one."""
    kept = {k: v for k, v in os.environ.items() if k not in ("REDIS_URL", "DATABASE_URL")}
    return {
        **kept,
        "FOLDLINE_HOME": str(home),
        "FOLDLINE_PORT": str(free_port()),
        "FOLDLINE_FLOWER_PORT": str(free_port()),
        "FOLDLINE_REDIS_PORT": str(free_port()),
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def start(environment: Mapping[str, str]) -> Iterator[StartCommand]:
    """Start `manage.py …` (or another program of this Python) in that environment."""
    started: list[Command] = []

    def run(*arguments: str, **changes: str) -> Command:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**environment, **changes},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        command = Command(process=process)
        started.append(command)
        return command

    yield run
    for command in started:
        if command.process.poll() is None:
            command.note_family()
            command.process.send_signal(signal.SIGKILL)
        for survivor in command.survivors():
            survivor.kill()
        command.ended()
