"""A trace played through the functions the service decides and forecasts with.

What is imitated is only what stands around them: jobs come, workers come, load, work and go,
and the clock. Order is `next_job` and `settle`, estimates are `ServiceTimes`, forecasts `walk`
and `calibrate`, all with nothing but what was known at the time.

A forecast is made as the forecaster makes it: by the first of its walks, 2 s apart, that finds
the job waiting; a job that started sooner gets none. Walks that nobody would hear of are left
out. Workers are ordered at once when jobs wait, load 30 to 90 s and go after 400 s without work.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from benchmarks.traces import COLD_S, Call, Trace
from foldline.scheduling.estimate import ServiceTimes
from foldline.scheduling.eta import Capacity, ColdStart, Running, calibrate, stretched
from foldline.scheduling.fairness import Accounts, Head, next_job, settle
from foldline.scheduling.walk import walk

Watch = Callable[["Replay", Sequence["Job"]], None]
"""Called after each walk, with the jobs it told of."""

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
WALK_EVERY_S = 2.0
IDLE_S = 400.0
LEASE_S = 25.0
RECENT = 2000
JOBS_PER_WORKER = 3

Choose = Callable[[Accounts, Sequence[Head], datetime], tuple[Head, Accounts]]


def fair(accounts: Accounts, heads: Sequence[Head], now: datetime) -> tuple[Head, Accounts]:
    choice = next_job(accounts, heads, now=now)
    assert choice is not None
    return choice.head, choice.accounts


def fifo(accounts: Accounts, heads: Sequence[Head], now: datetime) -> tuple[Head, Accounts]:
    return min(heads, key=lambda head: head.job_id), accounts


@dataclass(frozen=True, kw_only=True)
class Told:
    """A forecast: seconds from `at_s` on, `p90_s` as calibrated then."""

    at_s: float
    p50_s: float
    raw_p90_s: float
    p90_s: float
    naive_s: float


@dataclass(kw_only=True)
class Job:
    call: Call
    head: Head
    started_s: float | None = None
    told: Told | None = None

    @property
    def wait_s(self) -> float:
        """From its submit to its start; every job of a replay that has ended has started."""
        assert self.started_s is not None
        return self.started_s - self.call.at_s


@dataclass(kw_only=True, eq=False)
class Worker:
    """`job` is None while it loads and while it idles; `since_s` is when that began."""

    since_s: float
    ready: bool = False
    job: Job | None = None
    gone: bool = False


@dataclass(kw_only=True)
class Pool:
    """How many workers there may be, and whether they are always there."""

    most: int
    elastic: bool = True


@dataclass(kw_only=True, eq=False)
class Replay:
    """One run. `jobs` holds every job with when it started and what it was told."""

    trace: Trace
    pool: Pool
    seed: int
    choose: Choose = fair
    forecasts: bool = True
    samples: int = 60
    watch: Watch | None = None
    jobs: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now = 0.0
        self._rng = random.Random(self.seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._lines: dict[str, list[Job]] = {}
        self._accounts: Accounts = {}
        self._unsettled: list[tuple[Head, float]] = []
        self._workers: list[Worker] = []
        self._most = self.pool.most
        self._times = ServiceTimes()
        self._colds: deque[float] = deque(maxlen=50)
        self._recent: list[tuple[datetime, str]] = []
        self._untold: list[Job] = []
        self._factors = {"interactive": 1.0, "batch": 1.0}

    def run(self) -> list[Job]:
        """Play the trace to its end and beyond, until nobody waits."""
        if not self.pool.elastic:
            self._workers = [Worker(since_s=0.0, ready=True) for _ in range(self._most)]
        for call in self.trace.calls:
            self._at(call.at_s, lambda call=call: self._comes(call))  # type: ignore[misc]
        for loss_s in self.trace.losses_s:
            self._at(loss_s, self._lose)
        while self._events:
            self.now, _, happens = heapq.heappop(self._events)
            happens()
        return self.jobs

    def _at(self, at_s: float, happens: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (at_s, self._count, happens))

    def _comes(self, call: Call) -> None:
        head = Head(
            job_id=UUID(int=len(self.jobs)),
            attempt=0,
            tenant_id=UUID(bytes=call.tenant.encode().rjust(16, b"\0")),
            priority=call.priority,
            estimate_gpu_s=self._times.median_s(call.size),
            since=self._clock(),
            size=call.size,
        )
        job = Job(call=call, head=head)
        self.jobs.append(job)
        self._lines.setdefault(head.flow, []).append(job)
        self._recent.append((self._clock(), head.flow))
        self._hand_out()
        if self.forecasts and job.started_s is None:
            if not self._untold:
                walk_s = (self.now // WALK_EVERY_S + 1) * WALK_EVERY_S
                self._at(walk_s, self._walk)
            self._untold.append(job)

    def _clock(self) -> datetime:
        return EPOCH + timedelta(seconds=self.now)

    def _hand_out(self) -> None:
        """Idle workers take jobs; then further workers are ordered for those that wait."""
        for worker in self._workers:
            if worker.ready and worker.job is None and any(self._lines.values()):
                self._start(worker, self._claim())
        if self.pool.elastic:
            self._order_workers()

    def _claim(self) -> Job:
        for head, actual_s in self._unsettled:
            self._accounts = settle(
                self._accounts,
                flow=head.flow,
                weight=head.weight,
                priority=head.priority,
                charged_gpu_s=head.charge_gpu_s,
                actual_gpu_s=actual_s,
            )
        self._unsettled.clear()
        heads = [line[0].head for line in self._lines.values() if line]
        head, self._accounts = self.choose(self._accounts, heads, self._clock())
        return self._lines[head.flow].pop(0)

    def _start(self, worker: Worker, job: Job) -> None:
        worker.job, worker.since_s = job, self.now
        if job.started_s is None:
            job.started_s = self.now
            self._learn(job)
        self._at(self.now + job.call.seconds, lambda: self._ends(worker, job))

    def _learn(self, job: Job) -> None:
        """The job has started: was its p90 right?"""
        if job.told is not None:
            missed = self.now - job.told.at_s > job.told.p90_s
            factor = self._factors[job.head.priority]
            self._factors[job.head.priority] = calibrate(factor, missed=missed)

    def _ends(self, worker: Worker, job: Job) -> None:
        if worker.gone:
            return
        self._unsettled.append((job.head, job.call.seconds))
        self._times = self._times.observe(job.call.seconds, size=job.call.size)
        self._idles(worker)

    def _idles(self, worker: Worker) -> None:
        worker.ready, worker.job, worker.since_s = True, None, self.now
        self._hand_out()
        if self.pool.elastic and worker.job is None:
            self._at(self.now + IDLE_S, lambda: self._retire(worker))

    def _retire(self, worker: Worker) -> None:
        if not worker.gone and worker.job is None and self.now - worker.since_s >= IDLE_S:
            worker.gone = True
            self._workers.remove(worker)

    def _order_workers(self) -> None:
        waiting = sum(map(len, self._lines.values()))
        busy = sum(worker.job is not None for worker in self._workers)
        wanted = min(self._most, busy + math.ceil(waiting / JOBS_PER_WORKER))
        for _ in range(wanted - len(self._workers)):
            worker = Worker(since_s=self.now)
            self._workers.append(worker)
            cold_s = self._rng.uniform(*COLD_S)
            self._at(self.now + cold_s, lambda worker=worker: self._loaded(worker))  # type: ignore[misc]

    def _loaded(self, worker: Worker) -> None:
        self._colds.append(self.now - worker.since_s)
        self._idles(worker)

    def _lose(self) -> None:
        """The worker that has computed longest is lost, or, when none does, the next that will."""
        busy = [(worker, job) for worker in self._workers if (job := worker.job) is not None]
        if not busy:
            self._at(self.now + 1, self._lose)
            return
        worker, job = min(busy, key=lambda pair: pair[0].since_s)
        worker.gone = True
        self._workers.remove(worker)
        self._most -= 1
        self._at(self.now + LEASE_S, lambda: self._comes_back(job))
        self._at(self.now + self.trace.place_back_s, self._place_back)

    def _comes_back(self, job: Job) -> None:
        """A retry keeps its id: it is the first of its line."""
        line = self._lines[job.head.flow]
        line.insert(0, job)
        line.sort(key=lambda job: job.head.job_id)
        self._hand_out()

    def _place_back(self) -> None:
        self._most += 1
        self._hand_out()

    def _walk(self) -> None:
        waiting = [job for job in self._untold if job.started_s is None]
        self._untold.clear()
        if not waiting:
            return
        lines = {flow: [job.head for job in line] for flow, line in self._lines.items() if line}
        seen = walk(
            self._accounts,
            lines,
            now=self._clock(),
            capacity=self._capacity(),
            times=self._times,
            came=self._recent[-RECENT:],
            rng=self._rng,
            samples=self.samples,
        )
        places = {place.head.job_id: place for place in seen.places}
        for job in waiting:
            place = places[job.head.job_id]
            p50, p90 = seen.curves[job.head.priority].at(place.ahead_s)
            job.told = Told(
                at_s=self.now,
                p50_s=p50,
                raw_p90_s=p90,
                p90_s=stretched(p50, p90, factor=self._factors[job.head.priority]),
                naive_s=self._naive(place.position),
            )
        if self.watch is not None:
            self.watch(self, waiting)

    def _capacity(self) -> Capacity:
        loading = tuple(self.now - w.since_s for w in self._workers if not w.ready)
        return Capacity(
            idle=sum(w.ready and w.job is None for w in self._workers),
            running=tuple(self._running()),
            loading=loading,
            starting=0,
            cold=self._cold(),
        )

    def _running(self) -> Iterator[Running]:
        for worker in self._workers:
            if worker.job is not None:
                size = worker.job.call.size
                yield Running(
                    elapsed_s=self.now - worker.since_s,
                    median_s=self._times.median_s(size) or worker.job.head.charge_gpu_s,
                    sigma=self._times.sigma(size),
                )

    def _cold(self) -> ColdStart:
        seen = sorted(self._colds) or [60.0]
        return ColdStart(p50_s=seen[len(seen) // 2], p90_s=seen[int(0.9 * len(seen))])

    def _naive(self, position: int) -> float:
        """Position x mean / workers."""
        busy = sum(worker.job is not None for worker in self._workers)
        mean_s = self._times.model.mean_s or 60.0
        return (position + busy) * mean_s / max(len(self._workers), 1)
