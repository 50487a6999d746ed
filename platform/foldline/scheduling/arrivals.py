"""What may come while others wait, judged by what came lately. Pure.

Jobs come in bursts and bursts in sessions: that many came in the last minutes says that more
will, and less so the further ahead one looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

TOGETHER = timedelta(seconds=10)
LATELY_S = 900.0
CALMS_S = 300.0
"""Over so long the rate falls from that of the last minutes to that of all that is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Burst:
    """Jobs of one flow that came close together."""

    flow: str
    at: datetime
    jobs: int


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """Bursts that came, any of which may come again: `now_per_s` now, `later_per_s` in the end."""

    bursts: Sequence[Burst] = ()
    now_per_s: float = 0.0
    later_per_s: float = 0.0

    def per_s(self, ahead_s: float) -> float:
        """Bursts a second, so many seconds from now."""
        more = self.now_per_s - self.later_per_s
        return self.later_per_s + more * math.exp(-ahead_s / CALMS_S)


def arrivals(came: Sequence[tuple[datetime, str]], *, now: datetime) -> Arrivals:
    """Of the jobs that came, (when, flow) in the order they did; some hours of them, or a day."""
    bursts = _bursts(came)
    if not bursts:
        return Arrivals()
    span_s = max((now - came[0][0]).total_seconds(), LATELY_S)
    since = now - timedelta(seconds=LATELY_S)
    return Arrivals(
        bursts=bursts,
        now_per_s=sum(burst.at >= since for burst in bursts) / LATELY_S,
        later_per_s=len(bursts) / span_s,
    )


def _bursts(came: Sequence[tuple[datetime, str]]) -> list[Burst]:
    """A job joins its flow's burst when it comes within 10 s of the one before."""
    bursts: list[Burst] = []
    last: dict[str, tuple[int, datetime]] = {}
    for at, flow in came:
        index, before = last.get(flow, (-1, at))
        if index >= 0 and at - before <= TOGETHER:
            burst = bursts[index]
            bursts[index] = Burst(flow=flow, at=burst.at, jobs=burst.jobs + 1)
        else:
            index = len(bursts)
            bursts.append(Burst(flow=flow, at=at, jobs=1))
        last[flow] = (index, at)
    return bursts
