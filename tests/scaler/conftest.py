"""A live revision with a line, made directly, and a target that only writes down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pytest_django import Settings

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.forecasts.reading import forecasts_kept
from foldline.ids import uuid7
from foldline.jobs import tickets, wire
from foldline.jobs.admission import Submission
from foldline.jobs.models import Job
from foldline.jobs.services import submit
from foldline.tenants.models import Tenant
from scaler.targets import base
from scaler.targets.base import Report, Seen, Unseen, Wanted
from tests.redis_server import RedisServer, running_redis
from tests.worker_process import link_plain_runtime

MakeJob = Callable[..., UUID]
MakeRow = Callable[..., Worker]


@dataclass(kw_only=True)
class Notebook:
    """A target with two places. `crew` is what it sees; `asked` is what it was told."""

    crew: list[base.Worker] = field(default_factory=list)
    cards: tuple[str, ...] = ("place 1", "place 2")
    problems: tuple[base.Problem, ...] = ()
    blind: str = ""
    asked: list[Sequence[Wanted]] = field(default_factory=list)

    def look(self) -> Seen:
        if self.blind:
            raise Unseen(self.blind)
        return Seen(workers=tuple(self.crew), cards=self.cards, problems=self.problems)

    def act(self, wanted: Sequence[Wanted]) -> Report:
        self.asked.append(wanted)
        return Report()

    def last(self) -> dict[str, Wanted]:
        """By revision, in the last round that acted."""
        return {each.revision.name: each for each in self.asked[-1]}

    def hire(self, pid: int, *, revision: str = "toy@r1", place: int = 1) -> None:
        """A process of this machine, in a place of its own."""
        self.crew.append(
            base.Worker(
                name=f"here:{pid}",
                revision=revision,
                phase="loading",
                cards=(f"place {place}",),
            )
        )


@pytest.fixture
def target() -> Notebook:
    return Notebook()


@pytest.fixture(autouse=True)
def _read_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every look reads the forecast that is stored at this moment."""
    monkeypatch.setattr("foldline.forecasts.reading.KEEP_S", -1.0)
    forecasts_kept.clear()
    yield
    forecasts_kept.clear()


@pytest.fixture
def no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer, and at once says so."""
    monkeypatch.setattr(tickets, "publisher", lambda: tickets.Publisher("redis://127.0.0.1:1/0"))


@pytest.fixture
def toy(live_revision: Callable[..., Revision], no_redis: None) -> Revision:
    return live_revision(name="toy")


@pytest.fixture
def make_job(tenant: Tenant, toy: Revision) -> MakeJob:
    """Submit a job of `tenant`; keywords override the submission's fields."""

    def make(revision: Revision = toy, **changes: Any) -> UUID:
        fields: dict[str, Any] = {
            "tenant_id": tenant.id,
            "model_id": revision.model_id,
            "revision_id": revision.id,
            "queue": tickets.queue_name(revision.model.name, number=revision.number),
            "inputs": {"sequence": "EVQ"},
            "normalized_input": {"sequence": "EVQ", "copies": 1},
            "seed": 0,
            "seed_origin": "default",
            "fingerprint": uuid7().hex * 2,
            "payload_digest": "d" * 64,
        }
        return submit(Submission(**{**fields, **changes})).job_id

    return make


@pytest.fixture
def make_row(toy: Revision) -> MakeRow:
    """The row of a worker process that is loaded and idle, unless `state` says otherwise."""

    def make(pid: int, **changes: Any) -> Worker:
        now = database_now()
        fields: dict[str, Any] = {"state": "ready", "node": "here", "started_at": now}
        fields |= {"last_seen": now, "revision": toy, "name": f"toy-{pid}@here", **changes}
        return Worker.objects.create(pid=pid, **fields)

    return make


@pytest.fixture
def server(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RedisServer]:
    """A Redis of the test's own, which is there however slow this machine is, and a state folder
    with the runtime of the test plugins."""
    monkeypatch.setattr(wire, "SOCKET_TIMEOUT_S", 30.0)
    settings.HOME = tmp_path / "home"
    settings.ARTIFACTS_DIR = settings.HOME / "artifacts"
    link_plain_runtime(settings.HOME)
    with running_redis(tmp_path) as server:
        settings.REDIS_URL = server.url
        tickets.publisher.cache_clear()
        yield server
        tickets.publisher.cache_clear()


def sleep(revision: Revision, tenant: Tenant, seconds: float, **more: Any) -> Job:
    """A job of the test plugin `sleepy` that takes so long, or, with other inputs, of another."""
    inputs = {"seconds": seconds, **more}
    call = Submission(
        tenant_id=tenant.id,
        model_id=revision.model_id,
        revision_id=revision.pk,
        queue=tickets.queue_name(revision.model.name, number=revision.number),
        inputs=inputs,
        normalized_input=inputs,
        seed=7,
        seed_origin="caller",
        fingerprint=f"{uuid4().hex:f<64}",
        payload_digest="d" * 64,
    )
    return Job.objects.get(id=submit(call).job_id)
