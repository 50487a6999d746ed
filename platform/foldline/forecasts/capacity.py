"""Who works for a revision: what each worker does now, and how long one takes to load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from foldline.catalog.models import Revision
from foldline.fleet.models import Worker
from foldline.forecasts import assumed
from foldline.forecasts.history import Run
from foldline.scheduling.estimate import ServiceTimes
from foldline.scheduling.eta import Capacity, ColdStart, Running

STARTS = 30  # the newest, of one revision
FEW = 3
USUAL_SPREAD = 1.5
SHORTEST_S = 0.1

LOADED = (Worker.State.READY, Worker.State.BUSY)
LOADING = (Worker.State.STARTING, Worker.State.LOADING)


@dataclass(frozen=True, kw_only=True)
class Crew:
    """The newest workers of a revision, present and gone, the last one first. `wanted`: how many
    the scaler wants; 0 when none says so."""

    workers: Sequence[Worker]
    wanted: int = 0

    def loaded(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.state in LOADED]

    def loading(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.state in LOADING]

    @property
    def serving(self) -> int:
        """Workers that compute, wait for work, or will soon."""
        return len(self.loaded()) + len(self.loading())

    @property
    def share(self) -> float:
        """Of a card, that one of its workers holds; the last one's while none serves."""
        shares = [worker.share for worker in self.loaded() + self.loading()]
        shares = shares or [worker.share for worker in self.workers[:1]]
        return sum(shares) / len(shares) if sum(shares) > 0 else 1.0

    @property
    def peak_bytes(self) -> int:
        return max((worker.peak_memory_bytes for worker in self.workers), default=0)

    def cold_start(self, *, load_timeout_s: int) -> ColdStart:
        """What loading took; what the revision allows it while none has loaded."""
        totals = (worker.load_seconds.get("total") for worker in self.workers)
        took = sorted(max(total, SHORTEST_S) for total in totals if total is not None)
        if not took:
            return assumed.cold_start(load_timeout_s=load_timeout_s)
        middle = median(took)
        late = took[round(0.9 * (len(took) - 1))] if len(took) >= FEW else USUAL_SPREAD * middle
        return ColdStart(p50_s=middle, p90_s=max(middle, late))

    def capacity(
        self, runs: Sequence[Run], *, wall: ServiceTimes, cold: ColdStart, now: datetime
    ) -> Capacity:
        """When each of them is free. Those that were ordered and have not shown up are taken to
        start now; without any, one is."""
        began: dict[str, Run] = {}
        for run in runs:
            first = began.setdefault(run.worker, run)
            began[run.worker] = min(first, run, key=lambda run: run.started_at)
        loaded = self.loaded()
        busy = [began[worker.name] for worker in loaded if worker.name in began]
        return Capacity(
            idle=len(loaded) - len(busy),
            running=tuple(_running(run, wall=wall, now=now) for run in busy),
            loading=tuple(_seconds(worker.started_at, now) for worker in self.loading()),
            starting=max(self.wanted - self.serving, 0 if self.serving else 1),
            cold=cold,
        )


def crew_of(revision: Revision, *, wanted: int = 0) -> Crew:
    """All that are present, and the newest of those that are gone."""
    workers = Worker.objects.filter(revision=revision).order_by("-started_at")
    present = list(workers.exclude(state=Worker.State.GONE))
    gone = workers.filter(state=Worker.State.GONE)[:STARTS]
    return Crew(workers=[*present, *gone], wanted=wanted)


def _running(run: Run, *, wall: ServiceTimes, now: datetime) -> Running:
    return Running(
        elapsed_s=_seconds(run.started_at, now),
        median_s=wall.median_s(run.size) or SHORTEST_S,
        sigma=wall.sigma(run.size),
    )


def _seconds(since: datetime, now: datetime) -> float:
    return max((now - since).total_seconds(), 0.0)
