"""What past attempts tell: how long a model's jobs take, which run now, how many come.

Kept in memory and continued with each walk; a forecaster that starts reads the last few
hundred attempts of each model first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Max, Q, QuerySet

from foldline.catalog.models import Model
from foldline.fleet.models import Worker
from foldline.jobs.faults import contained
from foldline.jobs.models import Attempt
from foldline.scheduling.estimate import ServiceTimes
from foldline.scheduling.flows import flow_of

AT_START = 300  # attempts of one model
LOOK_BACK = 200_000  # attempts of all models: a rare one is not searched for in all of time
AT_ONCE = 5_000
OVERLAP = 500  # ids before the newest that may still be missing
GAP_LOOKS = 15  # walks, of two seconds or more


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One attempt, ended or not."""

    id: int
    job_id: UUID
    number: int
    worker: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    gpu_seconds: float
    model_id: UUID
    revision_id: UUID
    tenant_id: UUID
    priority: str
    size: int
    created_at: datetime

    @property
    def flow(self) -> str:
        return flow_of(self.tenant_id, self.priority)


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """`wall`: seconds from start to end of a job. `work`: seconds of a worker it takes; less
    where several jobs share one call of the model."""

    wall: ServiceTimes
    work: ServiceTimes


_COLUMNS = {
    **{name: name for name in ("id", "job_id", "number", "worker", "started_at", "ended_at")},
    **{name: name for name in ("outcome", "gpu_seconds")},
    **{name: f"job__{name}" for name in ("model_id", "revision_id", "tenant_id", "priority")},
    "size": "job__input_size",
    "created_at": "job__created_at",
}


class History:
    """The attempts as far as they were read."""

    def __init__(self) -> None:
        self._times: dict[UUID, Times] = {}
        self._open: dict[int, Run] = {}
        self._read_to = 0
        self._gaps: dict[int, int] = {}
        self._came: dict[UUID, list[tuple[datetime, str]]] = {}

    def times(self, model_id: UUID) -> Times:
        """What is known of a model's service times; nothing at first."""
        return self._times.get(model_id) or Times(wall=ServiceTimes(), work=ServiceTimes())

    def running(self, revision_id: UUID) -> list[Run]:
        """Attempts of a revision that had not ended when they were read last."""
        return [run for run in self._open.values() if run.revision_id == revision_id]

    def came_before(self, revision_id: UUID) -> list[tuple[datetime, str]]:
        """(when, flow) of the jobs of a revision that `begin` read, in the order they came."""
        return sorted(self._came.get(revision_id, ()))

    def begin(self) -> None:
        """Learn from what ended before this process began."""
        newest = Attempt.objects.aggregate(Max("id"))["id__max"] or 0
        for model_id in Model.objects.values_list("id", flat=True):
            attempts = Attempt.objects.filter(
                job__model=model_id, id__gt=newest - LOOK_BACK, outcome="succeeded"
            )
            runs = _runs(attempts.order_by("-id")[:AT_START])[::-1]
            self._learn(runs)
            for run in runs:
                self._came.setdefault(run.revision_id, []).append((run.created_at, run.flow))
        open_now = Attempt.objects.filter(ended_at=None, job__state="running")
        self._open = {run.id: run for run in _runs(open_now)}
        self._read_to = newest
        since = max(0, newest - OVERLAP)
        known = set(Attempt.objects.filter(id__gt=since).values_list("id", flat=True))
        self._gaps = dict.fromkeys({*range(since + 1, newest)} - known, 0)

    def refresh(self) -> Sequence[Run]:
        """Read on; gives the attempts that began since the last time, each once."""
        again = [*self._open, *self._gaps]
        wanted = Q(id__gt=self._read_to) | Q(id__in=again)
        read = _runs(Attempt.objects.filter(wanted).order_by("id")[:AT_ONCE])
        self._learn(run for run in read if run.outcome == "succeeded")
        new = [run for run in read if run.id not in self._open]
        self._open = {run.id: run for run in read if run.ended_at is None}
        self._read_on({run.id for run in new})
        return new

    def _read_on(self, new: set[int]) -> None:
        """PostgreSQL gives an id out before its attempt is committed: those in between that are
        not there yet are asked for again, for a while. Most were rolled back and never come."""
        last, self._read_to = self._read_to, max({*new, self._read_to})
        since = max(last, self._read_to - OVERLAP)
        waited = {gap: looks + 1 for gap, looks in self._gaps.items() if looks < GAP_LOOKS}
        between = dict.fromkeys(range(since + 1, self._read_to), 0)
        self._gaps = {gap: looks for gap, looks in (between | waited).items() if gap not in new}

    def _learn(self, ended: Iterable[Run]) -> None:
        runs = list(ended)
        names = {run.worker for run in runs}
        shares = dict(Worker.objects.filter(name__in=names).values_list("name", "share"))
        for run in runs:
            step = partial(self._learn_from, run, share=shares.get(run.worker, 0))
            contained("forecast: history", step, otherwise=None, of=run.job_id)

    def _learn_from(self, run: Run, *, share: float) -> None:
        wall = ((run.ended_at or run.started_at) - run.started_at).total_seconds()
        work = min(run.gpu_seconds / share, wall) if share else wall
        known = self.times(run.model_id)
        self._times[run.model_id] = Times(
            wall=known.wall.observe(wall, size=run.size),
            work=known.work.observe(work, size=run.size),
        )


def _runs(attempts: QuerySet[Attempt]) -> list[Run]:
    rows: Iterable[tuple[Any, ...]] = attempts.values_list(*_COLUMNS.values())
    return [Run(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]
