"""One revision's line as it was walked, and what follows from it for a call. Pure.

The forecaster writes it as JSON, the gateways read it; both ask the same questions of it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from foldline.jobs.blocked import Blocked
from foldline.scheduling.estimate import ServiceTimes, bucket
from foldline.scheduling.eta import Curve, stretched
from foldline.scheduling.flows import class_of
from foldline.scheduling.walk import COUNTED_AHEAD

NORMAL_P90 = 1.2816


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """Where the next job of a flow would stand, and how far behind it each further one.

    `waiting`: jobs of the flow in the line. `position` None: `held_by` a limit.
    """

    waiting: int
    position: int | None
    spacing: float = 1.0
    held_by: Blocked | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """A place in the line: 1 is next, with the seconds of work in front of it."""

    position: int
    ahead_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """Of one job: the mean of what it keeps a worker, p50 and p90 of its time from start to
    end. All seconds."""

    work_s: float
    run_p50_s: float
    run_p90_s: float


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """`curves` by class; empty: nobody can say, since nothing of the model is claimed.

    `wall`, `work`: how long jobs take, and how long each keeps a worker; the assumption is
    `assumed_s` until one has run. `share`: of a card that a worker holds. `knots`: (jobs in
    front, seconds of work in front) along the line. `tails` by flow; that of a flow nobody has
    heard of is named by its class alone. `lost`: a worker fell away while jobs waited. `cold`:
    no worker is loaded. `peak_bytes`: the most memory a worker was seen to use, 0 unknown.
    """

    as_of: datetime
    waiting: int
    blocked: Blocked | None
    lost: bool
    share: float
    assumed_s: float
    wall: ServiceTimes
    work: ServiceTimes
    curves: Mapping[str, Curve]
    knots: Sequence[tuple[int, float]]
    tails: Mapping[str, Tail]
    factors: Mapping[str, float]
    cold: bool
    cold_p50_s: float
    cold_p90_s: float
    peak_bytes: int
    memory_bytes: int
    _expected: dict[int, Expected] = field(default_factory=dict, init=False, compare=False)

    @property
    def measured(self) -> bool:
        """Whether a job of the model has ever run."""
        return self.work.model.count > 0

    def next_spot(self, flow: str, *, ahead_in_flow: int | None = None) -> Spot | None:
        """Where a new job of a flow stands, with so many of its flow in front of it (None: as
        many as the walk saw). None when a limit holds its flow."""
        tail = self.tails.get(flow) or self.tails[class_of(flow)]
        if tail.position is None:
            return None
        ahead = tail.waiting if ahead_in_flow is None else ahead_in_flow
        if ahead >= COUNTED_AHEAD:  # of more, its submit has counted no more
            ahead = max(COUNTED_AHEAD, tail.waiting)
        more = ahead - tail.waiting
        behind_all = self.waiting + 1 + more
        position = max(1, min(tail.position + math.ceil(more * tail.spacing), behind_all))
        return Spot(position=position, ahead_s=self.work_ahead_s(position - 1))

    def work_ahead_s(self, jobs: int) -> float:
        """Seconds of work of the first `jobs` of the line; beyond its end, of jobs like them."""
        last, whole = self.knots[-1]
        if jobs >= last:
            each = whole / last if last else self.expected(0).work_s
            return whole + (jobs - last) * each
        at = bisect_right(self.knots, jobs, key=lambda knot: knot[0])
        (left, less), (right, more) = self.knots[at - 1], self.knots[at]
        return less + (more - less) * (jobs - left) / (right - left)

    def start_s(self, ahead_s: float, *, priority: str) -> tuple[float, float] | None:
        """p50 and calibrated p90 of the start, in seconds after `as_of`."""
        curve = self.curves.get(priority)
        if curve is None:
            return None
        p50, p90 = curve.at(ahead_s)
        return p50, stretched(p50, p90, factor=self.factors.get(priority, 1.0))

    def expected(self, size: int) -> Expected:
        """What a job of this size takes."""
        key = bucket(size)
        known = self._expected.get(key)
        if known is None:
            known = self._expected[key] = self._expect(size)
        return known

    def _expect(self, size: int) -> Expected:
        work_s, median_s = self.work.mean_s(size), self.wall.median_s(size)
        if work_s is None or median_s is None:
            assumed_s = self.assumed_s
            return Expected(work_s=assumed_s, run_p50_s=assumed_s, run_p90_s=2 * assumed_s)
        spread = math.exp(NORMAL_P90 * self.wall.sigma(size))
        return Expected(work_s=work_s, run_p50_s=median_s, run_p90_s=median_s * spread)

    def as_json(self) -> dict[str, Any]:
        tails = {
            flow: [tail.waiting, tail.position, round(tail.spacing, 3), tail.held_by]
            for flow, tail in self.tails.items()
        }
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "as_of": self.as_of.isoformat(),
            "wall": self.wall.as_json(),
            "work": self.work.as_json(),
            "curves": {priority: curve.as_json() for priority, curve in self.curves.items()},
            "tails": tails,
        }


_PLAIN = (
    *("waiting", "blocked", "lost", "share", "assumed_s", "knots", "factors"),
    *("cold", "cold_p50_s", "cold_p90_s", "peak_bytes", "memory_bytes"),
)


def outlook_of(document: Mapping[str, Any]) -> Outlook:
    """The outlook that was stored as this JSON."""
    plain = {name: document[name] for name in _PLAIN}
    tails = {
        flow: Tail(waiting=waiting, position=position, spacing=spacing, held_by=_blocked(held))
        for flow, (waiting, position, spacing, held) in document["tails"].items()
    }
    return Outlook(
        **{**plain, "blocked": _blocked(plain["blocked"])},
        as_of=datetime.fromisoformat(document["as_of"]),
        wall=ServiceTimes.from_json(document["wall"]),
        work=ServiceTimes.from_json(document["work"]),
        curves={name: Curve.from_json(curve) for name, curve in document["curves"].items()},
        tails=tails,
    )


def _blocked(name: str | None) -> Blocked | None:
    return Blocked(name) if name else None
