"""What a caller is told of a call: its place, when it starts and ends. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from foldline.forecasts.outlook import Outlook, Spot
from foldline.forecasts.places import Reason
from foldline.scheduling.estimate import remainder_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Prospect:
    """What is expected of a call. None is not known; no time lies in the past.

    `basis`: "history", past jobs of the model, or "assumed" while none has run. `cold`: no
    worker is loaded.
    """

    position: int | None = None
    ahead_gpu_s: float | None = None
    reason: Reason | None = None
    start_p50: datetime | None = None
    start_p90: datetime | None = None
    finish_p50: datetime | None = None
    finish_p90: datetime | None = None
    basis: str | None = None
    as_of: datetime | None = None
    cold: bool | None = None
    cold_p50_s: float | None = None
    cold_p90_s: float | None = None


UNKNOWN = Prospect()


def prospect_without_place(outlook: Outlook) -> Prospect:
    """Of a job whose turn nobody can tell: a limit holds it, or nothing of the model is
    claimed."""
    return Prospect(
        as_of=outlook.as_of,
        cold=outlook.cold,
        cold_p50_s=outlook.cold_p50_s,
        cold_p90_s=outlook.cold_p90_s,
    )


def prospect_in_line(
    outlook: Outlook,
    spot: Spot,
    *,
    priority: str,
    size: int,
    now: datetime,
    reason: Reason | None = None,
) -> Prospect:
    """Of a job that waits at a place of the line."""
    reason = reason or (Reason.WORKER_LOST if outlook.lost else None)
    ahead_gpu_s = round(spot.ahead_s * outlook.share, 1)
    start = outlook.start_s(spot.ahead_s, priority=priority)
    times: list[datetime | None] = [None] * 4
    if start is not None:
        (p50, p90), run = start, outlook.expected(size)
        end = p50 + run.run_p50_s
        late = math.hypot(p90 - p50, run.run_p90_s - run.run_p50_s)
        began, soonest = outlook.as_of.timestamp(), now.timestamp()
        times = [_at(max(began + s, soonest)) for s in (p50, p90, end, end + late)]
    return Prospect(
        position=spot.position,
        ahead_gpu_s=ahead_gpu_s,
        reason=reason,
        start_p50=times[0],
        start_p90=times[1],
        finish_p50=times[2],
        finish_p90=times[3],
        basis=_basis(outlook) if start is not None else None,
        as_of=outlook.as_of,
        cold=outlook.cold,
        cold_p50_s=outlook.cold_p50_s,
        cold_p90_s=outlook.cold_p90_s,
    )


def prospect_running(
    outlook: Outlook, *, size: int, started_at: datetime, now: datetime
) -> Prospect:
    """Of a job that computes: when it ends, given how long it has computed."""
    run = outlook.expected(size)
    sigma = max(math.log(run.run_p90_s / run.run_p50_s), 0.05)
    elapsed_s = max((now - started_at).total_seconds(), 0.0)
    middle, late = (
        _at(
            now.timestamp()
            + remainder_s(share, elapsed_s=elapsed_s, median_s=run.run_p50_s, sigma=sigma)
        )
        for share in (0.5, 0.9)
    )
    return Prospect(finish_p50=middle, finish_p90=late, basis=_basis(outlook), as_of=outlook.as_of)


def _basis(outlook: Outlook) -> str:
    return "history" if outlook.measured else "assumed"


def _at(timestamp: float) -> datetime:
    """Whole seconds: more would claim a knowledge that nobody has."""
    return datetime.fromtimestamp(math.ceil(timestamp), UTC)
