"""Cards, workers and queues of a simulated day: an event loop, with one policy that acts on it."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from scaler.brain.placement import Room, fit
from scaler.brain.views import State
from scaler.simulate.trace import Call, Session
from scaler.simulate.workload import Kind

GIVE_UP = 1.5
"""A run that has not ended after this many times its span is broken off."""


@dataclass(eq=False, slots=True)
class Job:
    call: Call
    session: Running
    arrived_s: float
    started_s: float | None = None
    """The last time, for one that was killed and came back."""
    ended_s: float | None = None

    @property
    def waited_s(self) -> float:
        return (self.started_s or self.arrived_s) - self.arrived_s


@dataclass(eq=False, slots=True)
class Worker:
    number: int
    model: str
    card: str
    share: float
    state: State
    since_s: float
    born_s: float
    ready_s: float
    job: Job | None = None
    draining: bool = False
    gone: bool = False


@dataclass(eq=False, slots=True)
class Running:
    """A session under way."""

    session: Session
    stage: int = -1
    open: int = 0
    ended_s: float | None = None


@dataclass(slots=True)
class Tally:
    """What a run is judged by, of one model."""

    jobs: list[Job] = field(default_factory=list)
    runs: list[tuple[float, float]] = field(default_factory=list)
    starts: int = 0
    loading_s: float = 0.0
    lives: list[tuple[float, float]] = field(default_factory=list)
    """From order to end, of each worker."""
    killed: int = 0

    @property
    def alive_s(self) -> float:
        return sum(end - born for born, end in self.lives)


class Actor(Protocol):
    """Who decides: the brain, or one of the rules it is measured against."""

    every_s: float

    def begin(self, world: World) -> None: ...

    def beat(self, world: World) -> None:
        """Look and act, every `every_s` seconds."""

    def wake(self, world: World, *, arrived: Mapping[str, int]) -> None:
        """Jobs arrived, or a worker fell free while jobs wait."""


class World:
    """The most recently idle worker takes the next job; jobs go first come, first served."""

    def __init__(
        self,
        sessions: Iterable[Session],
        *,
        kinds: Mapping[str, Kind],
        cards: int,
        actor: Actor,
        seed: int,
    ) -> None:
        self.kinds = kinds
        self.now = 0.0
        self.free = {f"card-{number:02}": 1.0 for number in range(cards)}
        self.queues: dict[str, deque[Job]] = {model: deque() for model in kinds}
        self.workers: dict[str, list[Worker]] = {model: [] for model in kinds}
        self.tallies = {model: Tally() for model in kinds}
        self.sessions: list[Running] = []
        self._actor = actor
        self._rng = random.Random(seed)  # noqa: S311 - a simulation
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._born = 0
        self._open = 0
        for session in sessions:
            self._open += 1
            self.at(session.at_s, lambda session=session: self._begin(session))  # type: ignore[misc]

    def at(self, when_s: float, do: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (when_s, self._order, do))

    def run(self, until_s: float) -> None:
        """Until the span is over and every session has ended, or nothing helps any more."""
        self._actor.begin(self)
        self.at(self._actor.every_s, self._beat)
        while self._events:
            self.now, _, do = heapq.heappop(self._events)
            do()
            if self.now > until_s and (not self._open or self.now > until_s * GIVE_UP):
                break
        for crew in self.workers.values():
            for worker in crew:
                self.tallies[worker.model].lives.append((worker.born_s, self.now))

    def _beat(self) -> None:
        self._actor.beat(self)
        self.at(self.now + self._actor.every_s, self._beat)

    def _begin(self, session: Session) -> None:
        running = Running(session=session)
        self.sessions.append(running)
        self._next_stage(running)

    def _next_stage(self, running: Running) -> None:
        running.stage += 1
        if running.stage >= len(running.session.stages):
            running.ended_s = self.now
            self._open -= 1
            return
        stage = running.session.stages[running.stage]
        running.open = len(stage.calls)
        jobs = [Job(call=call, session=running, arrived_s=self.now) for call in stage.calls]
        self.tallies[stage.model].jobs += jobs
        self.queues[stage.model].extend(jobs)
        self._dispatch(stage.model)
        self._actor.wake(self, arrived={stage.model: len(jobs)})

    def _dispatch(self, model: str) -> None:
        queue = self.queues[model]
        if not queue:
            return
        idle = [each for each in self.workers[model] if each.state == "idle" and not each.draining]
        for worker in sorted(idle, key=lambda each: -each.since_s):
            if queue:
                self._give(worker, queue.popleft())

    def _give(self, worker: Worker, job: Job) -> None:
        worker.state, worker.job, worker.since_s = "busy", job, self.now
        job.started_s = self.now
        self.at(self.now + job.call.service_s, lambda: self._finish(worker, job))

    def _finish(self, worker: Worker, job: Job) -> None:
        if worker.job is not job or worker.gone:
            return
        job.ended_s = self.now
        worker.job, worker.state, worker.since_s = None, "idle", self.now
        self.tallies[worker.model].runs.append((self.now - job.call.service_s, self.now))
        if worker.draining:
            self.stop(worker)
        job.session.open -= 1
        if not job.session.open:
            self._next_stage(job.session)
        self._dispatch(worker.model)
        self._freed()

    def _freed(self) -> None:
        if any(self.queues.values()):
            self._actor.wake(self, arrived={})

    def rooms(self) -> list[Room]:
        return [Room(card=card, free=free) for card, free in self.free.items()]

    def start(self, model: str, *, card: str | None = None) -> Worker | None:
        """A worker that loads; None when no card has room."""
        kind = self.kinds[model]
        card = card or fit(self.rooms(), share=kind.share)
        if card is None:
            return None
        load_s = self._rng.uniform(*kind.cold_s)
        self._born += 1
        worker = Worker(
            number=self._born,
            model=model,
            card=card,
            share=kind.share,
            state="loading",
            since_s=self.now,
            born_s=self.now,
            ready_s=self.now + load_s,
        )
        self.free[card] -= kind.share
        self.workers[model].append(worker)
        tally = self.tallies[model]
        tally.starts += 1
        tally.loading_s += load_s
        self.at(worker.ready_s, lambda: self._loaded(worker))
        return worker

    def _loaded(self, worker: Worker) -> None:
        if worker.gone:
            return
        worker.state, worker.since_s = "idle", self.now
        self._dispatch(worker.model)
        self._freed()

    def stop(self, worker: Worker) -> None:
        """End a worker that runs nothing."""
        if worker.gone:
            return
        worker.gone = True
        self.free[worker.card] += worker.share
        self.workers[worker.model].remove(worker)
        self.tallies[worker.model].lives.append((worker.born_s, self.now))

    def drain(self, worker: Worker) -> None:
        """Let it end its job first; one that only loads leaves at once."""
        if worker.state == "busy":
            worker.draining = True
        else:
            self.stop(worker)

    def kill(self, worker: Worker, *, back_after_s: float) -> None:
        """End it in the middle of its job, which returns that long after it had begun."""
        job, worker.job = worker.job, None
        if job is not None and job.started_s is not None:
            self.tallies[worker.model].killed += 1
            back_s = max(self.now, job.started_s + back_after_s)
            self.at(back_s, lambda: self._requeue(worker.model, job))
        self.stop(worker)

    def _requeue(self, model: str, job: Job) -> None:
        self.queues[model].append(job)
        self._dispatch(model)
        self._actor.wake(self, arrived={model: 1})
