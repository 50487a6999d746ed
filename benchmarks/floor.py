"""The least that any forecast of a replay is off by.

At some of its walks the future is drawn again and again, and played on by the replay's own rules:
what running jobs and loads have left, what the jobs in line will take, what is missing of bursts
that are coming in, and who comes later. Who draws knows every parameter of the generator and of
the pool, and neither what the trace holds nor who will come. So its draws are from where the
waits themselves come from, and what they are off by is nobody's to mend.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import mean, median, quantiles

from benchmarks.replay import Job, Replay, Worker
from benchmarks.traces import (
    BETWEEN_BURSTS,
    BURSTS,
    CALL_EVERY_S,
    COLD_S,
    LONGEST_S,
    MEDIAN_SIZE,
    RESIDUAL,
    TENANTS,
    WITHIN_BURST,
    Call,
    Trace,
    burst_calls,
    expected_s,
    session_bursts,
)
from foldline.scheduling.estimate import remainder_s

EVERY = 24
"""Of the walks one in so many: a future is dear."""

DRAWS = 40
OPEN_S = 5.0
"""A burst whose last call is older has ended: within one, 0.5 s lie between calls."""

LONGEST_BURST_S = 150.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Open:
    """A burst that may go on: its calls so far, and how long ago the last one came."""

    calls: Sequence[Call]
    ago_s: float

    def rest(self, now: float, rng: random.Random) -> Iterator[Call]:
        """Calls still to come of it."""
        last = self.calls[-1]
        middle = self._middle(rng)
        at_s = now
        for _ in range(self._missing(rng)):
            at_s += rng.expovariate(1 / CALL_EVERY_S)
            size = max(round(math.exp(rng.gauss(middle, WITHIN_BURST))), 20)
            yield replace(last, at_s=at_s, size=size, seconds=seconds_of(size, rng))

    def _missing(self, rng: random.Random) -> int:
        """That it is over is the likelier the longer nothing came."""
        came = len(self.calls)
        counts = [count for count in COUNTS if count >= came]
        silence = math.exp(-self.ago_s / CALL_EVERY_S)
        weights = [self._likely(count) * (silence if count > came else 1.0) for count in counts]
        return rng.choices(counts, weights)[0] - came if counts else 0

    def _likely(self, count: int) -> float:
        call = self.calls[0]
        interactive = TENANTS[call.tenant] if count < 40 else 0.25
        return COUNTS[count] * (interactive if call.priority == "interactive" else 1 - interactive)

    def _middle(self, rng: random.Random) -> float:
        """The middle of its log sizes, as its calls and the generator's spread let it be."""
        seen = len(self.calls) / WITHIN_BURST**2
        known = 1 / BETWEEN_BURSTS**2
        average = mean(math.log(call.size) for call in self.calls)
        centre = (seen * average + known * math.log(MEDIAN_SIZE)) / (seen + known)
        return rng.gauss(centre, 1 / math.sqrt(seen + known))


def _counts() -> dict[int, float]:
    """How likely a burst is to have so many calls."""
    likely: dict[int, float] = {}
    for share, least, most in BURSTS:
        width = math.log(most / least)
        for count in range(least, most + 1):
            inside = math.log(min(count + 0.5, most) / max(count - 0.5, least))
            part = inside / width if width else 1.0
            likely[count] = likely.get(count, 0.0) + share * part
    return likely


COUNTS = _counts()


def seconds_of(size: int, rng: random.Random) -> float:
    return min(expected_s(size) * math.exp(rng.gauss(0, RESIDUAL)), LONGEST_S)


class Redrawn(Replay):
    """A replay that goes on from another's present into a future of its own."""

    @classmethod
    def after(cls, seen: Replay, calls: Sequence[Call], *, rng: random.Random) -> Redrawn:
        """`calls`: those that came within the last minutes."""
        again = cls(
            trace=Trace(calls=()), pool=seen.pool, seed=0, choose=seen.choose, forecasts=False
        )
        again.now, again._rng = seen.now, rng
        again._accounts, again._unsettled = seen._accounts, seen._unsettled[:]
        again._most, again._times = seen._most, seen._times
        again.jobs = seen.jobs[:]  # ids go on from there
        again._lines = {
            flow: [again._another(job) for job in line] for flow, line in seen._lines.items()
        }
        for worker in seen._workers:
            again._goes_on(replace(worker))
        again._comes_later(calls)
        return again

    def starts(self, jobs: Sequence[Job]) -> list[float]:
        """When jobs that wait start, in seconds from the present."""
        began = self.now
        waiting = {job.head.job_id: job for line in self._lines.values() for job in line}
        mine = [waiting[job.head.job_id] for job in jobs]
        while any(job.started_s is None for job in mine):
            self.now, _, happens = heapq.heappop(self._events)
            happens()
        return [job.started_s - began for job in mine if job.started_s is not None]

    def _another(self, job: Job) -> Job:
        call = replace(job.call, seconds=seconds_of(job.call.size, self._rng))
        return Job(call=call, head=job.head)

    def _goes_on(self, worker: Worker) -> None:
        self._workers.append(worker)
        passed_s = self.now - worker.since_s
        if not worker.ready:
            least, most = COLD_S
            cold_s = self._rng.uniform(max(least, passed_s), most)
            self._at(worker.since_s + cold_s, lambda: self._loaded(worker))
        elif worker.job is not None:
            left_s = remainder_s(
                self._rng.random(),
                elapsed_s=passed_s,
                median_s=expected_s(worker.job.call.size),
                sigma=RESIDUAL,
            )
            call = replace(worker.job.call, seconds=passed_s + left_s)
            job = worker.job = Job(call=call, head=worker.job.head, started_s=worker.since_s)
            self._at(self.now + left_s, lambda: self._ends(worker, job))

    def _comes_later(self, calls: Sequence[Call]) -> None:
        """The rest of open bursts, and after the last one others, as in its session or after."""
        bursts = list(_seen_bursts(calls))
        for burst in bursts:
            ago_s = self.now - burst[-1].at_s
            if ago_s <= OPEN_S:
                for call in Open(calls=burst, ago_s=ago_s).rest(self.now, self._rng):
                    self._call(call)
        began_s = max(burst[0].at_s for burst in bursts)
        further, next_s = self._after_burst()
        while began_s + next_s <= self.now:
            further, next_s = self._after_burst()
        self._at(began_s + next_s, lambda: self._burst(further, began_s))

    def _after_burst(self) -> tuple[Iterator[float], float]:
        """When others begin, in seconds from the beginning of one; and the first of them."""
        further = session_bursts(self._rng, math.inf)
        next(further)
        return further, next(further)

    def _burst(self, further: Iterator[float], began_s: float) -> None:
        for call in burst_calls(self._rng, self.now, lambda at_s: 1.0):
            self._call(call)
        self._at(began_s + next(further), lambda: self._burst(further, began_s))

    def _call(self, call: Call) -> None:
        self._at(call.at_s, lambda: self._comes(call))


def _seen_bursts(calls: Sequence[Call]) -> Iterator[list[Call]]:
    flows: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        flows.setdefault((call.tenant, call.priority), []).append(call)
    for flow in flows.values():
        burst = [flow[0]]
        for before, call in pairwise(flow):
            if call.at_s - before.at_s > OPEN_S:
                yield burst
                burst = []
            burst.append(call)
        yield burst


@dataclass(kw_only=True)
class Oracle:
    """Watches a replay; `told` holds jobs with the waits that were drawn for them."""

    rng: random.Random
    since_s: float
    every: int = EVERY
    told: list[tuple[Job, list[float]]] = field(default_factory=list)
    _walks: int = 0

    def watch(self, seen: Replay, jobs: Sequence[Job]) -> None:
        self._walks += 1
        if seen.now < self.since_s or self._walks % self.every:
            return
        calls = self._lately(seen)
        draws = [Redrawn.after(seen, calls, rng=self.rng).starts(jobs) for _ in range(DRAWS)]
        self.told += [
            (job, sorted(waits)) for job, waits in zip(jobs, zip(*draws, strict=True), strict=True)
        ]

    def _lately(self, seen: Replay) -> list[Call]:
        calls: list[Call] = []
        for job in reversed(seen.jobs):
            if job.call.at_s < seen.now - LONGEST_BURST_S:
                break
            calls.append(job.call)
        return calls[::-1]


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Of one replay. `mape`, `coverage` and `sharpness` of the quantiles that were drawn;
    `least_mape`: of the point that makes it least, and is no quantile that means anything;
    `service_mape`, `service_sharpness`: what the service told of the same jobs."""

    mape: float
    least_mape: float
    service_mape: float
    coverage: float
    sharpness: float
    service_sharpness: float


def floor_of(oracle: Oracle, *, long_s: float) -> Floor:
    told = [(job, draws, job.started_s - job.told.at_s) for job, draws in oracle.told
            if job.started_s is not None and job.told is not None]  # fmt: skip
    long = [each for each in told if each[2] >= long_s]
    waits = mean(wait for _, _, wait in told)
    p90 = [quantiles(draws, n=10)[-1] for _, draws, _ in told]

    def off(point: Callable[[Job, list[float]], float]) -> float:
        return mean(abs(point(job, draws) - wait) / wait for job, draws, wait in long)

    return Floor(
        mape=off(lambda _, draws: median(draws)),
        least_mape=off(lambda _, draws: least_off(draws, long_s=long_s)),
        service_mape=off(lambda job, _: job.told.p50_s if job.told else math.nan),
        coverage=mean(wait <= late for (_, _, wait), late in zip(told, p90, strict=True)),
        sharpness=mean(p90) / waits,
        service_sharpness=mean(job.told.p90_s for job, _, _ in told if job.told) / waits,
    )


def least_off(draws: Sequence[float], *, long_s: float) -> float:
    """The point with the least mean |point - wait| / wait over waits of `long_s` and more: their
    median by weights of 1 / wait, which lies below the median."""
    long = sorted(wait for wait in draws if wait >= long_s)
    half = sum(1 / wait for wait in long) / 2
    for wait in long:
        half -= 1 / wait
        if half <= 0:
            return wait
    return median(draws)
