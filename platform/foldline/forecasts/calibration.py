"""How right the forecasts were: what was told is kept until the job starts, and learned from.

Only jobs that have started teach anything; one that ends without starting is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, Subquery

from foldline.forecasts.models import Calibration, Told
from foldline.jobs.faults import contained
from foldline.jobs.models import Attempt, Job
from foldline.jobs.states import State
from foldline.scheduling.eta import calibrate

SAMPLE = 20  # of one model, a walk
MOST_OPEN = 500  # of one model
LONG_WAIT_S = 30.0
PROMISED = 0.9
"""Nine of ten jobs start before the p90 they are told."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How right the forecasts of a model and class were; shares are 0 to 1."""

    model: str
    priority: str
    jobs: int
    coverage: float
    long_waits: int
    error: float | None
    since: datetime
    updated_at: datetime

    @property
    def coverage_percent(self) -> float:
        return 100 * self.coverage

    @property
    def error_percent(self) -> float | None:
        return None if self.error is None else 100 * self.error


def factors(model_id: UUID) -> Mapping[str, float]:
    """By class, what the p90s of a model are `stretched` by."""
    return dict(Calibration.objects.filter(model=model_id).values_list("priority", "factor"))


def keep_told(told: Sequence[Told]) -> None:
    """Keep a sample of what the new jobs of one model were told, and never too many."""
    if not told:
        return
    room = MOST_OPEN - Told.objects.filter(model_id=told[0].model_id).count()
    Told.objects.bulk_create(told[: max(0, min(SAMPLE, room))], ignore_conflicts=True)


def learn(*, now: datetime) -> int:
    """Compare what was told with what came; gives the number of jobs learned from."""
    decided = _decided()
    Told.objects.filter(job_id__in=[told.job_id for told, _ in decided]).delete()
    started = [(told, start) for told, start in decided if start is not None]
    for told, start in started:
        step = partial(_learn_from, told, wait_s=(start - told.at).total_seconds(), now=now)
        contained("forecast: calibration", step, otherwise=None, of=told.job_id)
    return len(started)


def _decided() -> list[tuple[Told, datetime | None]]:
    """What was told of jobs that have started by now (and when), or ended without."""
    first = Attempt.objects.filter(job_id=OuterRef("job_id"), number=1)
    waiting = Job.objects.filter(id=OuterRef("job_id"), state=State.QUEUED)
    asked = Told.objects.annotate(start=Subquery(first.values("started_at")[:1]))
    decided = asked.filter(Q(start__isnull=False) | ~Exists(waiting)).order_by("job_id")
    return [(told, told.start) for told in decided]


@transaction.atomic
def _learn_from(told: Told, *, wait_s: float, now: datetime) -> None:
    calibration, _ = Calibration.objects.get_or_create(
        model_id=told.model_id,
        priority=told.priority,
        defaults={"since": now, "updated_at": now},
    )
    missed = wait_s > told.start_p90_s
    calibration.factor = calibrate(calibration.factor, missed=missed)
    calibration.jobs += 1
    calibration.covered += not missed
    if wait_s >= LONG_WAIT_S:
        calibration.long_waits += 1
        calibration.error_sum += abs(told.start_p50_s - wait_s) / wait_s
    calibration.updated_at = now
    calibration.save()


def shown() -> list[Shown]:
    """What the calibration page shows, by model and class."""
    found = Calibration.objects.filter(jobs__gt=0).select_related("model")
    return [
        Shown(
            model=each.model.name,
            priority=each.priority,
            jobs=each.jobs,
            coverage=each.covered / each.jobs,
            long_waits=each.long_waits,
            error=each.error_sum / each.long_waits if each.long_waits else None,
            since=each.since,
            updated_at=each.updated_at,
        )
        for each in found.order_by("model__name", "-priority")
    ]
