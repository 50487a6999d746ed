"""What the scaler asks of the jobs: whom there is work for, how much came, and who is at it; and
what a worker does that came for one job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.jobs import pauses, tickets
from foldline.jobs.line import Startable, claimable, startable, startable_line
from foldline.jobs.models import Job
from foldline.jobs.recent import made_since
from foldline.jobs.states import State

MOST_ANNOUNCING = 500
_OPEN = "jobs_job.state in ('queued', 'running')"
"""As the index of open jobs is made: with parameters in it SQLite would read the whole table."""
_OF_A_RUN = (
    *("id", "state", "revision_id", "tenant_id", "priority", "input_size"),
    *("not_before", "started_at", "attached_to_id"),
)
"""What says when a job ends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """A revision that workers may be needed for. Retired ones stay while they have jobs or
    workers."""

    revision_id: UUID
    model_id: UUID
    model: str
    number: int
    live: bool
    lane: str
    runtime: str
    threads: int
    memory_mb: int
    load_timeout_s: int
    run_timeout_s: int

    @property
    def name(self) -> str:
        """As `python -m tasks.worker` takes it."""
        return f"{self.model}@r{self.number}"

    @property
    def queue(self) -> str:
        return tickets.queue_name(self.model, number=self.number)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The job a worker is at. `size`: of its input, as estimates go by it."""

    revision_id: UUID
    size: int
    began: datetime


def served() -> Sequence[Served]:
    """Every revision the scaler decides about, by name."""
    mine = {"revision": OuterRef("pk")}
    jobs = Job.objects.filter(**mine, state=State.QUEUED, attached_to=None)
    workers = Worker.objects.filter(**mine).exclude(state=Worker.State.GONE)
    wanted = Q(state=Revision.State.LIVE) | Exists(jobs) | Exists(workers)
    revisions = Revision.objects.filter(wanted).exclude(state=Revision.State.DRAFT)
    return [_served(each) for each in revisions.select_related("model").order_by("model__name")]


def _served(revision: Revision) -> Served:
    return Served(
        revision_id=revision.pk,
        model_id=revision.model_id,
        model=revision.model.name,
        number=revision.number,
        live=revision.state == Revision.State.LIVE,
        lane=revision.lane,
        runtime=revision.runtime,
        threads=revision.threads,
        memory_mb=revision.memory_mb,
        load_timeout_s=revision.load_timeout_s,
        run_timeout_s=revision.run_timeout_s,
    )


def wanted_of(served: Served, *, now: datetime) -> Startable:
    """The jobs a worker could take now, within what limits, a pause and a breaker allow."""
    bound = pauses.may_serve(served.revision_id, now=now)
    if bound == 0:
        return Startable()
    line = startable_line(served.revision_id, model_id=served.model_id, now=now)
    count = line.count if bound is None else min(line.count, bound)
    return Startable(count=count, oldest=line.oldest)


def has_startable(revision_id: UUID) -> bool:
    """Whether a worker of the revision has anything to wait for: a job that it could claim now."""
    now = database_now()
    if pauses.room(revision_id, now=now) == 0:
        return False
    model_id = Revision.objects.values_list("model_id", flat=True).get(id=revision_id)
    return startable(revision_id, model_id=model_id, now=now) > 0


def with_claimable(revision_ids: Collection[UUID], *, now: datetime) -> set[UUID]:
    """Those of the revisions for which a job waits: one look into an index for each."""
    return {each for each in revision_ids if claimable(each, now=now).exists()}


def arrivals(*, since: datetime, now: datetime) -> Mapping[UUID, int]:
    """Jobs that were submitted since then and need a run of their own, by revision."""
    jobs = made_since(since, now=now).filter(cache_of=None, attached_to=None)
    return dict(jobs.order_by().values_list("revision_id").annotate(Count("id")))


def runs() -> Mapping[str, Run]:
    """What is computed now, by the worker's name."""
    jobs = Job.objects.filter(state=State.RUNNING).order_by()
    columns = ("owner", "revision_id", "input_size", "started_at")
    return {
        owner: Run(revision_id=revision_id, size=size, began=began)
        for owner, revision_id, size, began in jobs.values_list(*columns)
        if began is not None
    }


def announcing() -> Sequence[Job]:
    """Open jobs whose callers said which models they mean to call next, and who their runs are.

    Bounded, in no order: of so many any hundreds say the same.
    """
    jobs = Job.objects.select_related("attached_to").filter(next_models__isnull=False)
    run = [name for column in _OF_A_RUN for name in (column, f"attached_to__{column}")]
    jobs = jobs.extra(where=[_OPEN]).order_by()  # noqa: S610 - a constant
    return list(jobs.only("next_models", *run)[:MOST_ANNOUNCING])


def claimable_ids(revision_id: UUID, *, now: datetime, limit: int) -> Sequence[str]:
    """The oldest jobs of a revision that wait, and that run: each may have a worker of its own."""
    running = Job.objects.filter(revision_id=revision_id, state=State.RUNNING)
    both = [claimable(revision_id, now=now), running]
    return [
        str(job)
        for jobs in both
        for job in jobs.order_by("id").values_list("id", flat=True)[:limit]
    ]
