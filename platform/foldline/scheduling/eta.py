"""When a waiting job will start: the line played forward over sampled times. Pure.

Everything is seconds from now. Workers are served in the order of the line, each by the first
worker that is free; what takes how long is drawn from lognormal times. One walk answers every
position: exactly sampled to position 200, beyond it by a normal approximation.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import NormalDist
from typing import Any

from foldline.scheduling.arrivals import Arrivals
from foldline.scheduling.estimate import remainder_s

SAMPLED = 200
SAMPLES = 120
BURSTS = 200
"""Later ones that are looked at in a sample."""

DOUBT = 0.12
"""Spread of what all jobs of a line may be misjudged by together; it does not average out."""

STEP = 0.005
"""Of a calibration. Small, because the jobs of a burst are late together: a factor that follows
them is too high for everybody who comes after."""

UNSEEN = 0.2
"""Of the p50: what a calibrated p90 has beyond what was sampled. Who comes in the next hour is
known worse than the last day shows, and the more so the longer the wait."""

_KNOTS = frozenset((*range(17), *range(20, 41, 4), *range(48, 97, 8), *range(112, 201, 16), 200))
_POOL = 1024
_Z90 = NormalDist().inv_cdf(0.9)
_STEPS = [(step + 0.5) / _POOL for step in range(_POOL)]
_NORMALS = [NormalDist().inv_cdf(step) for step in _STEPS]
_GAPS = [-math.log(step) for step in _STEPS]


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """A job that computes now: how long it has, and what such jobs take."""

    elapsed_s: float
    median_s: float
    sigma: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdStart:
    """From a worker's start to its first claim."""

    p50_s: float
    p90_s: float

    @property
    def sigma(self) -> float:
        return max(math.log(max(self.p90_s / self.p50_s, 1.0)) / _Z90, 0.01)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """The workers of one revision: idle ones, what the others run, how long some have loaded.

    `starting` are ordered and have not begun to load. With no worker at all one is taken to be
    starting: a job that waits brings one.
    """

    idle: int
    running: tuple[Running, ...]
    loading: tuple[float, ...]
    starting: int
    cold: ColdStart

    @property
    def workers(self) -> int:
        return self.idle + len(self.running) + len(self.loading) + self.starting


@dataclass(frozen=True, kw_only=True)
class Curve:
    """p50 and p90 of the start over the seconds of work ahead in line.

    `knots` rise in all three: (work ahead, p50, p90). Beyond the last the p50 rises by `slope`
    a second of work, and the variance of the p90 by `scatter`.
    """

    knots: tuple[tuple[float, float, float], ...]
    slope: float
    scatter: float

    def at(self, ahead_s: float) -> tuple[float, float]:
        """(p50, p90) in seconds from the walk on; never negative, never falling in `ahead_s`."""
        index = bisect_left(self.knots, ahead_s, key=lambda knot: knot[0])
        if index == len(self.knots):
            return self._beyond(ahead_s)
        right = self.knots[index]
        left = self.knots[max(index - 1, 0)]
        width = right[0] - left[0]
        part = (ahead_s - left[0]) / width if width > 0 else 1.0
        return _between(left[1], right[1], part), _between(left[2], right[2], part)

    def _beyond(self, ahead_s: float) -> tuple[float, float]:
        last, p50, p90 = self.knots[-1]
        more = ahead_s - last
        late = p50 + self.slope * more
        variance = self.scatter * more + DOUBT**2 * (late**2 - p50**2)
        return late, late + math.sqrt((p90 - p50) ** 2 + _Z90**2 * variance)

    def as_json(self) -> dict[str, Any]:
        knots = [[round(value, 2) for value in knot] for knot in self.knots]
        return {"knots": knots, "slope": self.slope, "scatter": self.scatter}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Curve:
        knots = tuple((ahead, p50, p90) for ahead, p50, p90 in value["knots"])
        return cls(knots=knots, slope=value["slope"], scatter=value["scatter"])


def _between(left: float, right: float, part: float) -> float:
    return left + (right - left) * part


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """Where the next job of a flow would stand in fair order.

    At `tag`, or at the virtual time it comes at if that is later; each further one `step`
    behind. Each takes `work_s` in the mean.
    """

    tag: float
    step: float
    work_s: float


@dataclass(frozen=True, kw_only=True)
class Future:
    """What may come: `arrivals`, and the flow of each of its bursts."""

    arrivals: Arrivals = field(default_factory=Arrivals)
    flows: Mapping[str, Flow] = field(default_factory=dict)


NOBODY = Future()


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A job in line: what it takes in the mean, and the virtual time at which it goes."""

    work_s: float
    tag: float = 0.0


def forecast(
    line: Sequence[Waiting],
    *,
    sigma: float,
    capacity: Capacity,
    rng: random.Random,
    future: Future = NOBODY,
    samples: int = SAMPLES,
) -> Curve:
    """The curve of a line of jobs in the order they will go.

    `sigma` is the spread of log times around what is expected. Of the jobs that come meanwhile
    those go first whose tag is smaller. The same `rng` state and more workers never give a later
    start, because what is drawn does not depend on the workers.
    """
    line = line[:SAMPLED]
    draws = _Draws(sigma, rng, samples=samples)
    starts = [_Sample(draws, places, capacity, future).starts(line) for places in draws.places]
    ahead = list(accumulate((job.work_s for job in line), initial=0.0))
    p50, p90, curve = 0.0, 0.0, []
    for index in sorted({index for index in _KNOTS if index <= len(line)} | {len(line)}):
        column = sorted(start[index] for start in starts)
        p50, p90 = max(p50, _quantile(column, 0.5)), max(p90, _quantile(column, 0.9))
        curve.append((ahead[index], p50, max(p50, p90)))
    slope, scatter = _tail(ahead, sigma, capacity, p50=p50)
    return Curve(knots=tuple(curve), slope=slope, scatter=scatter)


def _quantile(column: Sequence[float], share: float) -> float:
    place = (len(column) - 1) * share
    low = int(place)
    high = min(low + 1, len(column) - 1)
    return _between(column[low], column[high], place - low)


def _tail(
    ahead: Sequence[float], sigma: float, capacity: Capacity, *, p50: float
) -> tuple[float, float]:
    """What a further second of work adds: to the start, and to its variance."""
    workers = max(capacity.workers, 1)
    typical = ahead[-1] / (len(ahead) - 1) if len(ahead) > 1 else 0.0
    # As the sampled line moved, with all that overtook it; but no faster than the workers are.
    slope = max(p50 / ahead[-1] if len(ahead) > SAMPLED else 0.0, 1 / workers)
    return slope, typical * math.expm1(sigma**2) * slope**2


class _Draws:
    """What the samples draw: stratified numbers in random order, read from random places on.

    All places are drawn first, so a sample uses the same numbers whatever it does with them.
    """

    def __init__(self, sigma: float, rng: random.Random, *, samples: int) -> None:
        normals, self.gaps, self.shares = _NORMALS[:], _GAPS[:], _STEPS[:]
        for pool in (normals, self.gaps, self.shares):
            rng.shuffle(pool)
        # The mean is 1: `work_s` are means.
        self.factors = [math.exp(sigma * z - sigma**2 / 2) for z in normals]
        self.places = [[rng.randrange(_POOL) for _ in range(5)] for _ in range(samples)]
        self.normals = normals


class _Sample:
    """One way it may go."""

    def __init__(
        self, draws: _Draws, places: Sequence[int], capacity: Capacity, future: Future
    ) -> None:
        self.draws, self.future = draws, future
        self.mine, self.theirs, self.gap, worker, doubt = places
        self.pace = math.exp(DOUBT * draws.normals[doubt])
        self.free = _free_at(capacity, draws.shares, worker)
        self.tags: dict[str, float] = {}
        self.came: list[tuple[float, str, int]] = []
        self.left = BURSTS
        self.comes_s = self._next(0.0)

    def starts(self, line: Sequence[Waiting]) -> list[float]:
        """The start of each job of the line, and of one more behind it."""
        free, factors, mine = self.free, self.draws.factors, self.mine
        starts, reached = [], 0.0
        for job in line:
            if self.came or self.comes_s <= free[0]:
                self._let_pass(reached, job.tag)
            starts.append(free[0])
            reached, mine = job.tag, (mine + 1) % _POOL
            heapq.heapreplace(free, free[0] + job.work_s * self.pace * factors[mine])
        self._let_pass(reached, reached)
        return [*starts, free[0]]

    def _let_pass(self, reached: float, tag: float) -> None:
        """Those that came by now and have a smaller tag take the next free workers."""
        free = self.free
        self._come(reached)
        while self.came and self.came[0][0] < tag:
            reached, name, left = self.came[0]
            flow = self.future.flows[name]
            if left > 1:
                heapq.heapreplace(self.came, (reached + flow.step, name, left - 1))
            else:
                heapq.heappop(self.came)
            self.theirs = (self.theirs + 1) % _POOL
            heapq.heapreplace(
                free, free[0] + flow.work_s * self.pace * self.draws.factors[self.theirs]
            )
            self._come(reached)

    def _come(self, reached: float) -> None:
        bursts = self.future.arrivals.bursts
        while self.comes_s <= self.free[0]:
            burst = bursts[int(self.draws.shares[self.gap] * len(bursts))]
            flow = self.future.flows[burst.flow]
            tag = max(self.tags.get(burst.flow, flow.tag), reached)
            self.tags[burst.flow] = tag + burst.jobs * flow.step
            heapq.heappush(self.came, (tag, burst.flow, burst.jobs))
            self.comes_s = self._next(self.comes_s)

    def _next(self, after_s: float) -> float:
        """When the next burst comes."""
        per_s = self.future.arrivals.per_s(after_s)
        if per_s <= 0 or not self.left:
            return math.inf
        self.left -= 1
        self.gap = (self.gap + 1) % _POOL
        return after_s + self.draws.gaps[self.gap] / per_s


def _free_at(capacity: Capacity, shares: Sequence[float], place: int) -> list[float]:
    """When each worker is free, as a heap."""
    cold = capacity.cold
    starting = capacity.starting if capacity.workers else 1
    began = [(job.elapsed_s, job.median_s, job.sigma) for job in capacity.running]
    began += [(elapsed, cold.p50_s, cold.sigma) for elapsed in capacity.loading]
    began += [(0.0, cold.p50_s, cold.sigma)] * starting
    free = [0.0] * capacity.idle
    for index, (elapsed, median, sigma) in enumerate(began):
        share = shares[(place + index) % _POOL]
        free.append(remainder_s(share, elapsed_s=elapsed, median_s=median, sigma=sigma))
    heapq.heapify(free)
    return free


def stretched(p50: float, p90: float, *, factor: float) -> float:
    """The p90 as calibrated. The factor stretches what lies beyond the p50, so that a start that
    is certain stays so."""
    return p50 + factor * (p90 - p50 + UNSEEN * p50)


def calibrate(factor: float, *, missed: bool) -> float:
    """What the next p90 is stretched by, after a job started late (`missed`) or in time.

    It settles where one job in ten is late. Between 0.5 and 4.
    """
    return min(max(factor * math.exp(STEP * (missed - 0.10)), 0.5), 4.0)
