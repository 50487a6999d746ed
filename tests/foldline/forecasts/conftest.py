"""A live revision with workers and a line, made directly; `walked` is one round over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.forecasts.reading import forecasts_kept
from foldline.forecasts.walker import Walker
from foldline.ids import uuid7
from foldline.jobs import tickets
from foldline.jobs.admission import Submission
from foldline.jobs.models import Attempt, Job
from foldline.jobs.services import submit
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]
MakeWorker = Callable[..., Worker]


@pytest.fixture(autouse=True)
def _read_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every question reads the forecast that is stored at this moment; no Redis here."""
    monkeypatch.setattr("foldline.forecasts.reading.KEEP_S", -1.0)
    monkeypatch.setattr(tickets, "send", lambda queue, *, count=1: True)
    forecasts_kept.clear()
    yield
    forecasts_kept.clear()


@pytest.fixture
def revision(live_revision: Callable[..., Revision]) -> Revision:
    return live_revision(name="toy")


@pytest.fixture
def make_job(tenant: Tenant, revision: Revision) -> MakeJob:
    """Submit a job of `tenant`; keywords override the submission's fields."""

    def make(**changes: Any) -> UUID:
        fields: dict[str, Any] = {
            "tenant_id": tenant.id,
            "model_id": revision.model_id,
            "revision_id": revision.id,
            "queue": tickets.queue_name("toy", number=1),
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
def make_worker(revision: Revision) -> MakeWorker:
    """A worker of the revision, loaded and idle unless `state` says otherwise."""

    def make(name: str = "w1", **changes: Any) -> Worker:
        now = database_now()
        fields: dict[str, Any] = {"state": "ready", "node": "here", "pid": 1, "started_at": now}
        fields |= {"last_seen": now, "load_seconds": {"total": 20.0}, **changes}
        return Worker.objects.create(name=name, revision=revision, **fields)

    return make


@pytest.fixture
def past(make_job: MakeJob) -> Callable[..., None]:
    """Let jobs of the model have run before: so many, of so many seconds, `share` of a card."""

    def run(count: int, *, seconds: float, worker: str = "w1", share: float = 1.0) -> None:
        began = database_now() - timedelta(hours=1)
        for _ in range(count):
            job_id = make_job()
            Job.objects.filter(id=job_id).update(state="succeeded", attempt=1)
            ran(job_id, began=began, seconds=seconds, worker=worker, share=share)

    return run


def ran(
    job_id: UUID, *, began: datetime, seconds: float, worker: str = "w1", share: float = 1.0
) -> None:
    """Note the first attempt of a job, as one that has succeeded."""
    Attempt.objects.create(
        job_id=job_id,
        number=1,
        worker=worker,
        share=share,
        started_at=began,
        ended_at=began + timedelta(seconds=seconds),
        outcome="succeeded",
        gpu_seconds=seconds * share,
    )


@pytest.fixture
def walker() -> Walker:
    """A forecaster's memory, begun."""
    walker = Walker()
    walker.begin()
    return walker
