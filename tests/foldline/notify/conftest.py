"""Receivers on this machine, endpoints that lead to them, and a notifier that beats when told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from foldline.catalog.models import Revision
from foldline.jobs import tickets
from foldline.jobs.admission import Submission
from foldline.jobs.services import cancel, submit
from foldline.notify import endpoints, sending
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.notify.notifier import Notifier
from foldline.notify.schedule import Outcome
from foldline.notify.sending import Letter, Network
from foldline.tenants.models import Tenant
from tests.worker_process import wait_until

Register = Callable[..., WebhookEndpoint]


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(kw_only=True)
class Receiver:
    """A real server on loopback. It answers `status`, once `may_answer` is set."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    at_once: int = 0
    most_at_once: int = 0

    def __post_init__(self) -> None:
        receiver, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                came = Received(
                    path=self.path,
                    headers={name.lower(): text for name, text in self.headers.items()},
                    body=self.rfile.read(length),
                )
                with lock:
                    receiver.received.append(came)
                    receiver.at_once += 1
                    receiver.most_at_once = max(receiver.most_at_once, receiver.at_once)
                receiver.may_answer.wait(300)
                with lock:
                    receiver.at_once -= 1
                self.send_response(receiver.status)
                for name, text in receiver.headers.items():
                    self.send_header(name, text)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.may_answer.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # who hung up
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/hook"

    @property
    def events(self) -> list[str]:
        return [came.headers["webhook-id"] for came in self.received]

    def stop(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receivers() -> list[Receiver]:
    """All of a test's."""
    return []


@pytest.fixture
def make_receiver(
    settings: Settings, receivers: list[Receiver]
) -> Iterator[Callable[..., Receiver]]:
    """A receiver whose host may be told; keywords as in `Receiver`."""
    settings.WEBHOOK_HOSTS = []
    with ExitStack() as running:

        def make(**behaviour: Any) -> Receiver:
            receiver = Receiver(**behaviour)
            running.callback(receiver.stop)
            receivers.append(receiver)
            settings.WEBHOOK_HOSTS = [*settings.WEBHOOK_HOSTS, receiver.host]
            return receiver

        yield make


@pytest.fixture
def receiver(make_receiver: Callable[..., Receiver]) -> Receiver:
    return make_receiver()


@pytest.fixture
def register(tenant: Tenant) -> Register:
    """Register an endpoint of `tenant` for all its jobs; keywords as in `endpoints.register`."""

    def make(url: str, *, of: Tenant = tenant, **changes: Any) -> WebhookEndpoint:
        return endpoints.register(of.id, **{"url": url, "all_jobs": True, **changes})[0]

    return make


@pytest.fixture
def endpoint(register: Register, receiver: Receiver) -> WebhookEndpoint:
    return register(receiver.url)


@pytest.fixture
def revision(live_revision: Callable[..., Revision]) -> Revision:
    return live_revision()


@pytest.fixture
def end_job(
    tenant: Tenant, revision: Revision, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., UUID]:
    """A job whose end is told, and that has ended: it was cancelled. Keywords as in
    `Submission`."""
    monkeypatch.setattr(tickets, "send", lambda queue, *, count=1: True)
    numbers = iter(range(10**6))

    def end(*, of: Tenant = tenant, **changes: Any) -> UUID:
        fields: dict[str, Any] = {
            "tenant_id": of.id,
            "model_id": revision.model_id,
            "revision_id": revision.id,
            "queue": "q",
            "inputs": {"sequence": "EVQ"},
            "normalized_input": {"sequence": "EVQ", "copies": 1},
            "seed": 1,
            "seed_origin": "caller",
            "fingerprint": f"{next(numbers):064}",
            "payload_digest": "",
            "notify": True,
        }
        job_id = submit(Submission(**{**fields, **changes})).job_id
        cancel(tenant_id=of.id, job_id=job_id)
        return job_id

    return end


@dataclass(kw_only=True)
class Beating:
    """A notifier in the test's own thread: it sees the test's transaction."""

    notifier: Notifier

    def until(self, true: Callable[[], object]) -> None:
        wait_until(lambda: (self.notifier.beat(), true())[1])

    def until_told(self) -> None:
        """Until nothing is under way and nothing is due."""
        self.until(lambda: not self.notifier.under_way and not due())


def patient(letter: Letter, *, network: Network) -> Outcome:
    return sending.send(letter, network=network, timeout_s=300)


def due() -> bool:
    from django.utils import timezone

    waiting = Delivery.objects.filter(state="waiting", next_at__lte=timezone.now())
    return waiting.filter(endpoint__paused_until=None).exists()


@pytest.fixture
def beating(
    db: None, receivers: list[Receiver], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Beating]:
    """It leads, and waits for a receiver, however long the test takes."""
    monkeypatch.setattr("foldline.notify.notifier.SILENCE_S", 3600.0)
    monkeypatch.setattr("foldline.notify.notifier.send", patient)
    notifier = Notifier(name="test")
    yield Beating(notifier=notifier)
    for each in receivers:
        each.may_answer.set()
    notifier.close()
