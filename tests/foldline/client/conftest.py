"""The client twice, sync and async, for the same cases; and a Foldline it talks to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from foldline.client import AsyncFoldline, Foldline, Patience
from foldline.client.flows import Flows
from tests.foldline.client.scripted import Scripted, scripted
from tests.house import House, built
from tests.redis_server import RedisServer, running_redis

QUICK = Patience(total_s=120, first_s=0.02, most_s=0.05)


class Awaited:
    """AsyncFoldline, each call awaited at once on a loop of its own."""

    def __init__(self, url: str, key: str, **more: Any) -> None:
        self._client = AsyncFoldline(url, key, **more)
        self._loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            found = method(*args, **kwargs)
            return self._loop.run_until_complete(_listed(found) if name == "events" else found)

        return call

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


async def _listed(events: Any) -> list[Any]:
    return [event async for event in events]


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Make a client, sync or async, that is used the same way."""
    made: list[Any] = []

    def make(url: str, key: str = "fl_live_test", **more: Any) -> Any:
        kind = Foldline if request.param == "sync" else Awaited
        made.append(kind(url, key, **{"patience": QUICK, **more}))
        return made[-1]

    yield make
    for client in made:
        client.close()


class Clock:
    """The client's own time. It passes while the client pauses, which takes none of ours."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of the clients that the test makes."""
    clock = Clock()
    for driver in ("sync", "aio"):
        monkeypatch.setattr(f"foldline.client.{driver}.Flows", partial(Flows, clock=clock))
    monkeypatch.setattr("foldline.client.sync.time", SimpleNamespace(sleep=clock.sleep))
    monkeypatch.setattr("foldline.client.aio.asyncio", SimpleNamespace(sleep=clock.sleep_async))
    return clock


@pytest.fixture
def script() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


@pytest.fixture(scope="package")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="package")
def house(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> Iterator[House]:
    """With a gateway, a sweeper, a forecaster and a loaded worker of `sleepy`."""
    with built(tmp_path_factory.mktemp("house"), redis=redis) as house:
        house.start_gateway()
        house.start_sweeper()
        house.start("forecaster", "manage.py", "forecaster")
        house.start_worker()
        yield house


class Shell:
    """`foldline` as a person types it, with a state folder of its own."""

    def __init__(self, house: House, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("FOLDLINE_")},
            "FOLDLINE_URL": f"http://127.0.0.1:{house.port}",
            "FOLDLINE_API_KEY": house.key,
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def command(self, *arguments: str) -> list[str]:
        program = "from foldline.client.cli import main; main()"
        return [sys.executable, "-c", program, *arguments]

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            text=True,
            preexec_fn=_hears_ctrl_c,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
        )

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=240,
        )


def _hears_ctrl_c() -> None:
    """A suite that a shell started in its background ignores Ctrl-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def foldline(house: House, tmp_path: Path) -> Shell:
    return Shell(house, tmp_path)
