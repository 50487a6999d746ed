"""Whatever happens to jobs and workers in whatever order, the ledger adds up."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.db.models import F

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import job_error
from foldline.fleet import accounts
from foldline.fleet import services as fleet
from foldline.fleet.models import Worker
from foldline.jobs import bill, services, sharing
from foldline.jobs.claims import Fence, Fenced
from foldline.jobs.models import Attempt, Job
from foldline.jobs.sweeper import expire_due, requeue_lost
from foldline.tenants import ledger
from foldline.tenants.models import DailyUse, LedgerLine, Tenant

pytestmark = pytest.mark.django_db
MakeJob = Callable[..., UUID]

USED = ("compute", "wasted")
SAVED = ("cache", "coalesced", "expired", "cancelled")
OWNERS = ("w1", "w2")
SEEDS = range(12)
STEPS = 50


@dataclass(kw_only=True)
class Walk:
    """Jobs of two tenants and two workers, to whom anything may happen at any moment."""

    rng: random.Random
    make_job: MakeJob
    revision: Revision
    tenants: list[Tenant]
    jobs: list[UUID] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)

    def step(self) -> None:
        acts: dict[Callable[[], Any], int] = {
            self.submit: 5, self.claim: 5, self.time_passes: 4, self.finish: 3, self.fail: 2,
            self.lose: 3, self.cancel: 2, self.stopped: 1, self.expire: 1,
            self.worker_reports: 2, self.worker_leaves: 1, self.worker_falls_silent: 1,
        }  # fmt: skip
        (act,) = self.rng.choices(list(acts), weights=list(acts.values()))
        with suppress(Fenced):
            act()

    def submit(self) -> None:
        call = self.rng.choice("abcd")
        self.jobs.append(
            self.make_job(
                tenant_id=self.rng.choice(self.tenants).id,
                fingerprint=call * 64,
                shared=self.rng.random() < 0.8,
                session=call,
            )
        )
        Job.objects.filter(id=self.jobs[-1]).update(estimate_gpu_s=self.rng.choice([None, 7.0]))

    def claim(self) -> None:
        Job.objects.filter(not_before__isnull=False).update(not_before=database_now())
        owner, limit = self.rng.choice(OWNERS), self.rng.choice([1, 1, 3])
        claimed = services.claim(revision_id=self.revision.id, owner=owner, limit=limit)
        self.fences += [job.fence for job in claimed]

    def time_passes(self) -> None:
        earlier = timedelta(seconds=self.rng.uniform(1, 500))
        Attempt.objects.filter(ended_at=None).update(started_at=F("started_at") - earlier)
        Worker.objects.update(started_at=F("started_at") - earlier)

    def finish(self) -> None:
        services.finish(self._fence(), result={})

    def fail(self) -> None:
        code = self.rng.choice(["plugin_crashed", "model_error", "invalid_input", "gpu_oom"])
        services.fail(self._fence(), error=job_error(code))

    def lose(self) -> None:
        fence = self._fence()
        past = database_now() - timedelta(seconds=1)
        Job.objects.filter(id=fence.job_id, state="running").update(lease_until=past)
        requeue_lost(now=database_now())
        if self.rng.random() < 0.5:  # the worker comes with its result all the same
            services.finish(fence, result={})

    def cancel(self) -> None:
        job = Job.objects.get(id=self.rng.choice(self.jobs)) if self.jobs else None
        if job is not None:
            services.cancel(tenant_id=job.tenant_id, job_id=job.id)

    def stopped(self) -> None:
        services.stopped(self._fence())

    def expire(self) -> None:
        if self.jobs:
            due = Job.objects.filter(id=self.rng.choice(self.jobs), state="queued")
            due.update(start_by=database_now())
            expire_due(now=database_now())

    def worker_reports(self) -> None:
        loaded = {"total": self.rng.uniform(0, 100)} if self.rng.random() < 0.7 else {}
        fleet.report(self._worker(), state="ready", load_seconds=loaded)

    def worker_leaves(self) -> None:
        fleet.report(self._worker(), state="gone", current_job=None)

    def worker_falls_silent(self) -> None:
        quiet = Worker.objects.filter(id=self._worker())
        quiet.update(last_seen=F("last_seen") - timedelta(seconds=60))
        fleet.bury_silent_workers(before=database_now() - timedelta(seconds=30))

    def end(self) -> None:
        """What runs is lost, and all workers go, before that or after it."""
        ends = [self._lose_all, self._leave_all]
        self.rng.shuffle(ends)
        for end in ends:
            end()

    def _lose_all(self) -> None:
        past = database_now() - timedelta(seconds=1)
        Job.objects.filter(state="running").update(lease_until=past)
        requeue_lost(now=database_now())

    def _leave_all(self) -> None:
        for worker_id in Worker.objects.values_list("id", flat=True):
            fleet.report(worker_id, state="gone")

    def _fence(self) -> Fence:
        if not self.fences:
            raise Fenced
        return self.rng.choice(self.fences[-4:])

    def _worker(self) -> Any:
        return Worker.objects.get(name=self.rng.choice(OWNERS)).id


def check_jobs() -> None:
    """Compute and wasted are a job's bill; one that had no attempt saved, once."""
    for job in Job.objects.all():
        lines = list(LedgerLine.objects.filter(job_id=job.id))
        used = sum(line.gpu_seconds for line in lines if line.kind in USED)
        assert used == pytest.approx(job.gpu_seconds, abs=1e-6), "a job's bill"
        answered = [line for line in lines if line.kind == "compute" and line.gpu_seconds > 0]
        assert len(answered) <= 1, "a job's answer"
        ended_without = not job.attempt and job.state in ("succeeded", "cancelled", "expired")
        saved = [line for line in lines if line.kind in SAVED]
        assert len(saved) == ended_without, "what a job has saved"


def check_days() -> None:
    days: dict[Any, float] = {}
    for line in LedgerLine.objects.filter(kind__in=USED):
        day = (line.tenant_id, line.model, line.at.astimezone(UTC).date())
        days[day] = days.get(day, 0.0) + line.gpu_seconds
    rows = DailyUse.objects.values_list("tenant_id", "model", "day", "gpu_seconds")
    told = {(tenant, model, day): seconds for tenant, model, day, seconds in rows}
    assert told == pytest.approx(days, abs=1e-6), "a tenant's days"


def check_workers() -> None:
    for worker in Worker.objects.all():
        lines = LedgerLine.objects.filter(worker=worker.name)
        until = max([worker.last_seen, *(line.at for line in lines if line.kind in USED)])
        paid = (until - worker.started_at).total_seconds() * worker.share
        told = sum(line.gpu_seconds for line in lines)
        assert told == pytest.approx(paid, abs=1e-4), "what a worker held"


@pytest.fixture
def walk(
    make_job: MakeJob, revision: Revision, owner_of_jobs: Tenant, other_tenant: Tenant
) -> Callable[[int], None]:
    """Walk with a seed and check the sums."""

    def go(seed: int) -> None:
        with transaction.atomic():
            for pid, name in enumerate(OWNERS):
                fleet.register(name=name, revision_id=revision.id, node="n", pid=pid)
            Worker.objects.filter(name="w2").update(share=0.5)
            walk = Walk(
                rng=random.Random(seed),
                make_job=make_job,
                revision=revision,
                tenants=[owner_of_jobs, other_tenant],
            )
            for _ in range(STEPS):
                walk.step()
            walk.end()
            check_jobs()
            check_days()
            check_workers()
            transaction.set_rollback(True)

    return go


def test_the_ledger_adds_up_whatever_happens(walk: Callable[[int], None]) -> None:
    _walk_all(walk, SEEDS)


def _walk_all(walk: Callable[[int], None], seeds: Iterable[int]) -> None:
    for seed in seeds:
        walk(seed)


@pytest.mark.parametrize(
    ("room", "mechanism", "broken", "sum_"),
    [
        (bill, "_taken_back", lambda *_, **__: [], "a job's bill"),
        (bill, "settle_gone", lambda **_: None, "what a worker held"),
        (fleet, "settle_gone", lambda **_: None, "what a worker held"),
        (ledger, "_raise_daily_use", lambda *_: None, "a tenant's days"),
        (services, "post_saved", lambda *_, **__: None, "what a job has saved"),
        (sharing, "post_saved", lambda *_, **__: None, "what a job has saved"),
        (accounts, "LEAST_S", 1e9, "what a worker held"),
    ],
    ids=lambda each: each if isinstance(each, str) else getattr(each, "__name__", ""),
)
def test_a_mechanism_that_is_missing_is_noticed(
    walk: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    room: Any,
    mechanism: str,
    broken: Any,
    sum_: str,
) -> None:
    monkeypatch.setattr(room, mechanism, broken)
    with pytest.raises(AssertionError, match=sum_):
        _walk_all(walk, range(50))
