"""One walk over a model's line: who stands where, and how long it takes from there. Pure.

The forecaster gathers what this needs, calls it every two seconds and stores what it gives; the
benchmarks call the same function. Times are seconds from `now`; work is seconds on one worker
(times a worker's share of a card it is GPU-seconds).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from foldline.scheduling.arrivals import arrivals
from foldline.scheduling.estimate import ServiceTimes
from foldline.scheduling.eta import (
    SAMPLED,
    SAMPLES,
    Capacity,
    Curve,
    Flow,
    Future,
    Waiting,
    forecast,
)
from foldline.scheduling.fairness import (
    CLASS_WEIGHT,
    DEFAULT_ESTIMATE_GPU_S,
    Accounts,
    Head,
    Schedule,
)
from foldline.scheduling.flows import class_of

CLASSES = ("interactive", "batch")


COUNTED_AHEAD = 500
"""Of the jobs of its own flow in front of a new one, more are not counted: a submit must not
cost more the more its tenant has sent. From there on the last walk's number stands in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a waiting job stands: `position` counts the jobs before it, `ahead_s` their work."""

    head: Head
    position: int
    ahead_s: float


@dataclass(frozen=True, kw_only=True)
class Walk:
    """What one walk saw.

    `places` are the waiting jobs in the order they will go; `curves` gives (p50, p90) of the
    start over `ahead_s`, by class. `behind` says where a job would stand that is sent now.
    """

    places: Sequence[Place]
    curves: Mapping[str, Curve]
    schedule: Schedule
    total_s: float

    def behind(self, flow: str) -> tuple[int, float]:
        """(position, work ahead) of a new job of this flow, be it in line or an `unknown_flow`."""
        position = self.schedule.place(flow)
        if position == len(self.places):
            return position, self.total_s
        return position, self.places[position].ahead_s


def walk(
    accounts: Accounts,
    lines: Mapping[str, Sequence[Head]],
    *,
    now: datetime,
    capacity: Capacity,
    times: ServiceTimes,
    came: Sequence[tuple[datetime, str]],
    rng: random.Random,
    samples: int = SAMPLES,
) -> Walk:
    """Play the line of one model forward.

    `lines` holds every claimable job by flow (`Head.flow`), each line by id; leave out flows that
    may not start anything now. `came` tells (when, flow) of the jobs that came in the last hours
    or day, in that order, waiting or not.
    """
    typical_s = times.model.mean_s or DEFAULT_ESTIMATE_GPU_S
    pace_s = typical_s / max(capacity.workers, 1)
    schedule = Schedule(accounts, lines, now=now, pace_s=pace_s)
    work = list(_work(schedule.order, times))
    ahead = list(accumulate(work, initial=0.0))
    curve = forecast(
        [
            Waiting(work_s=w, tag=tag)
            for w, tag in zip(work[:SAMPLED], schedule.reached, strict=False)
        ],
        sigma=_sigma(schedule.order[:SAMPLED], times),
        capacity=capacity,
        future=_future(came, schedule=schedule, typical_s=typical_s, now=now),
        rng=rng,
        samples=samples,
    )
    places = [
        Place(head=head, position=index, ahead_s=ahead[index])
        for index, head in enumerate(schedule.order)
    ]
    return Walk(
        places=places, curves=dict.fromkeys(CLASSES, curve), schedule=schedule, total_s=ahead[-1]
    )


def _future(
    came: Sequence[tuple[datetime, str]], *, schedule: Schedule, typical_s: float, now: datetime
) -> Future:
    flows = {
        flow: Flow(
            tag=schedule.tags.start(flow),
            step=typical_s / CLASS_WEIGHT.get(class_of(flow), 1.0),
            work_s=typical_s,
        )
        for flow in {flow for _, flow in came}
    }
    return Future(arrivals=arrivals(came, now=now), flows=flows)


def _work(order: Sequence[Head], times: ServiceTimes) -> Iterator[float]:
    """What each job takes in the mean: what was seen, or what was estimated when it came."""
    known: dict[int, float | None] = {}
    for head in order:
        if head.size not in known:
            known[head.size] = times.mean_s(head.size)
        mean = known[head.size]
        yield head.charge_gpu_s if mean is None else mean


def _sigma(order: Sequence[Head], times: ServiceTimes) -> float:
    """The spread of the jobs in line, or of the model when nobody waits."""
    sizes = [head.size for head in order[:SAMPLED]]
    if not sizes:
        return times.spread
    return sum(times.sigma(size) for size in sizes) / len(sizes)
