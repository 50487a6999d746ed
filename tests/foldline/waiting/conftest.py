"""The door under a real uvicorn, on the test's database, with a Redis of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import httpx
import pytest
from django.db import connections
from pytest_django import Settings

from foldline.catalog.models import Revision
from foldline.jobs import services
from foldline.jobs.claims import Fence
from foldline.tenants import rates
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quotas import quotas_kept
from foldline.waiting import app, room
from foldline.waiting.room import Room
from tests.redis_server import RedisServer, running_redis
from tests.served import Served, served
from tests.worker_process import PATIENCE_S, wait_until

T = TypeVar("T")

POLL_S = 30
"""How long a call of `Callers.poll` waits."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    """An answer and how long it took."""

    answer: httpx.Response
    seconds: float

    @property
    def body(self) -> Any:
        return self.answer.json()


@dataclass(frozen=True, kw_only=True)
class Event:
    """One server-sent event; a comment has no name."""

    name: str
    data: Any
    id: str

    @property
    def state(self) -> str:
        return str(self.data.get("state", "")) if self.data else ""


def woken(asked: Future[Timed], *, wait_s: float = POLL_S) -> Timed:
    """The answer of a wait that something ended before its time was over."""
    answer = asked.result()
    assert answer.seconds < wait_s
    return answer


def event_of(block: str) -> Event:
    fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
    data = json.loads(fields["data"]) if "data" in fields else None
    return Event(name=fields.get("event", ""), data=data, id=fields.get("id", ""))


class Reader:
    """A stream of events, read in a thread of its own."""

    def __init__(self, open_stream: Callable[[], Any]) -> None:
        self._open = open_stream
        self.headers: httpx.Headers = httpx.Headers()
        self.status = 0
        self.text = ""
        self.ended = threading.Event()

    def run(self) -> None:
        with self._open() as answer:
            self.status, self.headers = answer.status_code, answer.headers
            for piece in answer.iter_text():
                self.text += piece
        self.ended.set()

    @property
    def events(self) -> list[Event]:
        """Those that have come whole, without comments and `retry`."""
        blocks = self.text.split("\n\n")[:-1]
        return [event for event in map(event_of, blocks) if event.name]

    def states(self) -> list[str]:
        return [event.state for event in self.events if event.name == "state"]

    def of(self, name: str) -> list[Event]:
        return [event for event in self.events if event.name == name]

    def until(self, name: str, *, times: int = 1) -> None:
        """Wait until so many events of this name have come."""
        wait_until(lambda: len(self.of(name)) >= times or self.ended.is_set(), what=name)
        assert len(self.of(name)) >= times, self.text

    def until_ended(self) -> None:
        assert self.ended.wait(PATIENCE_S), self.text


class Callers:
    """Those who ask at the door. `room` is where they wait."""

    def __init__(self, server: Served, *, room: Room, key: str, pool: ThreadPoolExecutor) -> None:
        self.room = room
        self._server = server
        self._pool = pool
        self._key = key
        self._port = server.port
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{server.port}",
            timeout=70,
            headers={"Authorization": f"Bearer {key}"},
            limits=httpx.Limits(max_connections=500),
        )

    def ask(self, method: str, path: str, **content: Any) -> Timed:
        began = time.monotonic()
        answer = self._http.request(method, path, **content)
        return Timed(answer=answer, seconds=time.monotonic() - began)

    def get(self, path: str, **headers: str) -> Timed:
        return self.ask("GET", path, headers=_named(headers))

    def submit(self, *, sequence: str = "EVQ", model: str = "toy", **headers: str) -> Timed:
        body = {"inputs": {"sequence": sequence}}
        return self.ask("POST", f"/v1/models/{model}/jobs", json=body, headers=_named(headers))

    def new_job(self, **how: str) -> UUID:
        return UUID(self.submit(**how).body["id"])

    def meanwhile(self, ask: Callable[[], Timed], *, waits: int = 1) -> Future[Timed]:
        """Ask, and return once `waits` more callers wait in the room."""
        wanted = self.room.waits + waits
        asked = self._pool.submit(ask)
        self.until_waiting(wanted, or_done=asked)
        return asked

    def until_waiting(self, wanted: int, *, or_done: Future[Timed] | None = None) -> None:
        def there() -> bool:
            # A copy: the server's thread changes the set meanwhile.
            seated = sum(watch.caller is not None for watch in tuple(self.room._open))
            return seated >= wanted or (or_done is not None and or_done.done())

        wait_until(there, what=f"{wanted} waits")

    def until_forgotten(self) -> None:
        """Wait until nothing is left of those who waited."""
        room = self.room
        wait_until(lambda: not (room._open or room._watches or room._seats), what="an empty room")

    def until_hearing(self) -> None:
        """Wait until news of jobs come here."""
        wait_until(lambda: self.room._hearing.up, what="news")

    def poll(self, job_id: UUID, seconds: int = POLL_S, **headers: str) -> Future[Timed]:
        return self.meanwhile(lambda: self.get(f"/v1/jobs/{job_id}?wait={seconds}", **headers))

    def watch(self, job_id: UUID, **headers: str) -> Reader:
        path = f"/v1/jobs/{job_id}/events"
        reader = Reader(lambda: self._http.stream("GET", path, headers=_named(headers)))
        self._pool.submit(reader.run)
        wait_until(lambda: reader.text or reader.ended.is_set())
        return reader

    def in_room(self, wait: Callable[[Room], Coroutine[Any, Any, T]]) -> Future[T]:
        """Wait in the server's own loop."""
        return asyncio.run_coroutine_threadsafe(wait(self.room), self._server.loop)

    def connection(self, path: str, *, body: bytes = b"", headers: str = "") -> socket.socket:
        """A request on a bare socket, which the test may leave or not read."""
        open_socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        head = (
            f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {self._key}\r\n"
        )
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        open_socket.sendall(f"{head}{headers}\r\n".encode() + body)
        return open_socket

    def close(self) -> None:
        self._http.close()


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture
def toy(transactional_db: None, live_revision: Callable[..., Revision]) -> Revision:
    return live_revision()


@pytest.fixture
def door(
    toy: Revision,
    api_key: str,
    redis: RedisServer,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callers]:
    """The gateway's door with Redis at hand. Nobody waits any more when the test has ended."""
    settings.EVENTS_URL = redis.url
    monkeypatch.setattr("foldline.jobs.tickets.send", lambda queue, *, count=1: True)
    with opened(key=api_key) as callers:
        yield callers


@contextmanager
def opened(*, key: str) -> Iterator[Callers]:
    door = app.Door()
    with ThreadPoolExecutor(64) as pool, served(door, lifespan="on") as server:
        callers = Callers(server, room=door.room, key=key, pool=pool)
        try:
            yield callers
            wait_until(lambda: door.room.waits == 0, what="nobody waiting")
        finally:
            _close_connections(door)
            server.should_exit = True
    for thread in door.django.threads:
        thread.join(60)
    callers.close()


def _close_connections(door: app.Door) -> None:
    """A thread's connection goes with it, some time; the test's database cannot wait."""
    threads = door.django.threads
    together = threading.Barrier(len(threads))
    for _ in threads:
        door.django.calls.put(partial(_close_here, together))


def _close_here(together: threading.Barrier) -> None:
    together.wait(60)
    connections.close_all()


@pytest.fixture
def only_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """While news come, nobody reads whether any was lost: who is woken has heard it."""
    monkeypatch.setattr(room, "SAFETY_S", 3600.0)


class Worker:
    """What a worker writes about a job, without one."""

    def __init__(self, revision: Revision) -> None:
        self._revision = revision

    def claim(self) -> Fence:
        (claimed,) = services.claim(revision_id=self._revision.id, owner="w")
        return claimed.fence


@pytest.fixture
def limit(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set limits of the tenant. However long the test takes, no minute passes."""
    monkeypatch.setattr(rates, "time", SimpleNamespace(monotonic=lambda: 0.0))

    def to(**limits: int) -> None:
        Quota.objects.create(tenant=tenant, **limits)
        quotas_kept.clear()
        rates.buckets.clear()

    return to


@pytest.fixture
def worker(toy: Revision) -> Worker:
    return Worker(toy)
