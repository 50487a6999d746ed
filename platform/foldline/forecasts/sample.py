"""What the callers of new jobs were told: computed from the forecast that stood when they came,
as the gateways did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from foldline.forecasts.calibration import SAMPLE
from foldline.forecasts.models import Told
from foldline.forecasts.outlook import Outlook
from foldline.forecasts.reading import STALE_S
from foldline.scheduling.flows import class_of


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Newcomer:
    """A job that was submitted since the last walk, by its place in time."""

    job_id: UUID
    flow: str
    created_at: datetime

    @property
    def priority(self) -> str:
        return class_of(self.flow)


def told_to(newcomers: Iterable[Newcomer], *, model_id: UUID, outlook: Outlook) -> list[Told]:
    """A sample of the newcomers with what `outlook` let them expect."""
    ahead: Counter[str] = Counter()
    told = []
    for job in sorted(newcomers):
        age_s = (job.created_at - outlook.as_of).total_seconds()
        mine = _told(job, model_id, outlook, age_s=age_s, ahead=ahead[job.flow])
        ahead[job.flow] += 1
        if mine is not None and 0 <= age_s <= STALE_S:
            told.append(mine)
    return spread(told)


def spread(told: Sequence[Told]) -> list[Told]:
    """As many as are kept, from the first to the last."""
    if len(told) <= SAMPLE:
        return list(told)
    return [told[index * len(told) // SAMPLE] for index in range(SAMPLE)]


def _told(
    job: Newcomer, model_id: UUID, outlook: Outlook, *, age_s: float, ahead: int
) -> Told | None:
    tail = outlook.tails.get(job.flow)
    waiting = tail.waiting if tail else 0
    spot = outlook.next_spot(job.flow, ahead_in_flow=waiting + ahead)
    start = outlook.start_s(spot.ahead_s, priority=job.priority) if spot is not None else None
    if start is None:
        return None
    p50, p90 = (max(seconds - age_s, 0.0) for seconds in start)
    return Told(
        job_id=job.job_id,
        model_id=model_id,
        priority=job.priority,
        at=job.created_at,
        start_p50_s=p50,
        start_p90_s=p90,
    )
