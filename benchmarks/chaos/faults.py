"""Faults, each aimed at what is at work. One that hit nothing does not count.

A fault is a function that does its damage and says what it hit; None when there was nothing
to aim at. Damage that lasts is undone later, by `Faults.undo_due`.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.chaos.callers import Caller
from benchmarks.chaos.estate import Estate, Member

BURST = 8
REDIS_FROZEN_S = 3.0
LOOK_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Hit:
    """What a fault hit. `effective`: it was at work, and felt it; None: that is known later."""

    effective: bool | None
    job: str = ""
    attempt: int = 0
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class Lasting:
    """Damage to undo at a time of `time.monotonic()`."""

    until: float
    undo: Callable[[], None]


class Faults:
    """Does one fault at a time and tells the estate's history of it."""

    def __init__(self, estate: Estate, *, random: Random, caller: Caller, lease_s: float) -> None:
        self.effective = 0
        self._estate, self._random, self._caller = estate, random, caller
        self._frozen_s = 2 * lease_s + 6
        self._lasting: list[Lasting] = []
        self._answers_at_crash = -1

    def do(self, kind: str) -> bool:
        """Whether there was something to aim at."""
        hit = KINDS[kind](self)
        if hit is None:
            return False
        if hit.effective is not None:
            self._tell(kind, hit)
        return True

    def undo_due(self, *, all_of_it: bool = False) -> None:
        for lasting in list(self._lasting):
            if all_of_it or time.monotonic() >= lasting.until:
                self._lasting.remove(lasting)
                lasting.undo()

    def replace_dead(self) -> None:
        """Start again what has ended without having been hit: it says so in its history."""
        for worker in list(self._estate.workers):
            if not worker.alive:
                self._estate.told.write("ended", code=worker.process.returncode)
                self._estate.replace(worker)

    def _tell(self, kind: str, hit: Hit) -> None:
        self.effective += hit.effective is True
        self._estate.told.write("fault", kind=kind, **vars(hit))

    def kill_worker(self) -> Hit | None:
        if (aim := self._aim()) is None:
            return None
        worker, job, attempt = aim
        self._estate.told.write("down", name=worker.name)
        began = time.time()
        worker.kill()
        effective = self._runs_still(job, attempt)
        self._estate.replace(worker)
        self._estate.told.write("aimed", kind="kill_worker", job=job, attempt=attempt, at=began)
        return Hit(effective=effective, job=job, attempt=attempt, owner=worker.name)

    def kill_plugin(self) -> Hit | None:
        """Not twice without an answer in between, which would look like a crash loop."""
        if (aim := self._aim()) is None or self._answers() == self._answers_at_crash:
            return None
        worker, job, attempt = aim
        if (plugin := worker.plugin()) is None:
            return None
        self._answers_at_crash = self._answers()
        self._estate.told.write("unsettled", name=worker.name)
        self._estate.told.write(
            "aimed", kind="kill_plugin", job=job, attempt=attempt, at=time.time()
        )
        plugin.kill()
        effective = self._ends_as("plugin_crashed", job, attempt)
        return Hit(effective=effective, job=job, attempt=attempt, owner=worker.name)

    def freeze_worker(self) -> Hit | None:
        """Longer than its lease; it wakes up to find its job in other hands, and then counts."""
        if (aim := self._aim()) is None or any(w.frozen for w in self._estate.workers):
            return None
        worker, job, attempt = aim
        self._estate.told.write("down", name=worker.name)
        worker.frozen = True
        worker.process.send_signal(signal.SIGSTOP)

        def thaw() -> None:
            lost = not self._runs_still(job, attempt)
            worker.process.send_signal(signal.SIGCONT)
            worker.frozen = False
            self._estate.told.write("up", name=worker.name)
            hit = Hit(effective=lost, job=job, attempt=attempt, owner=worker.name)
            self._tell("freeze_worker", hit)

        self._lasting.append(Lasting(until=time.monotonic() + self._frozen_s, undo=thaw))
        return Hit(effective=None)

    def empty_redis(self) -> Hit:
        effective = self._work_is_open()
        self._estate.redis.kill()
        time.sleep(self._random.uniform(0, 1))
        self._estate.redis.start()
        return Hit(effective=effective)

    def freeze_redis(self) -> Hit:
        self._estate.redis.freeze()
        burst = self._caller.burst(2)
        effective = self._work_is_open()
        time.sleep(REDIS_FROZEN_S)
        self._estate.redis.thaw()
        _join(burst)
        return Hit(effective=effective)

    def cut_redis(self) -> Hit:
        """Close the connections of all its clients."""
        with self._estate.redis.client() as client:
            cut = client.execute_command("CLIENT", "KILL", "SKIPME", "yes")
        return Hit(effective=bool(cut) and self._work_is_open())

    def kill_gateway(self) -> Hit:
        """In the middle of a burst of submits; it counts when one of them had no answer."""
        burst = self._caller.burst(BURST)
        time.sleep(self._random.uniform(0, 0.03))
        waiting = sum(thread.is_alive() for thread in burst)
        self._estate.gateway.kill()
        self._estate.start_gateway()
        _join(burst)
        return Hit(effective=waiting > 0)

    def kill_sweeper(self) -> Hit | None:
        """While a job of a dead or frozen worker waits for it."""
        sweeper = self._estate.sweeper
        alive = {worker.name for worker in self._estate.ready_workers()}
        orphans = [job for owner, job in self._estate.running().items() if owner not in alive]
        if sweeper is None or not orphans:
            return None
        sweeper.kill()
        self._estate.start_sweeper()
        return Hit(effective=True, job=orphans[0][0])

    def end_sessions(self) -> Hit | None:
        if not self._estate.running():
            return None
        return Hit(effective=self._estate.postgres.end_sessions() > 0)

    def restart_postgres(self) -> Hit | None:
        """Like a power cut: no session is told, and the log is replayed."""
        if not self._estate.running():
            return None
        self._estate.postgres.restart(mode="immediate")
        return Hit(effective=True)

    def _aim(self) -> tuple[Member, str, int] | None:
        """A worker that runs a job, its job and attempt; rather one of the first attempts."""
        workers = {worker.name: worker for worker in self._estate.ready_workers()}
        running = self._estate.running()
        found = [(workers[owner], *running[owner]) for owner in running if owner in workers]
        self._random.shuffle(found)
        return min(found, key=lambda aim: aim[2], default=None)

    def _runs_still(self, job: str, attempt: int) -> bool:
        return any(held == (job, attempt) for held in self._estate.running().values())

    def _ends_as(self, outcome: str, job: str, attempt: int) -> bool:
        """Whether the attempt comes to that end soon."""
        deadline = time.monotonic() + LOOK_S
        while time.monotonic() < deadline:
            (told,) = self._estate.rows(
                "select outcome from jobs_attempt where job_id = %s and number = %s", job, attempt
            )
            if told[0]:
                return bool(told[0] == outcome)
            time.sleep(0.05)
        return False

    def _answers(self) -> int:
        query = "select count(*) from jobs_attempt where outcome = 'succeeded'"
        return int(self._estate.rows(query)[0][0])

    def _work_is_open(self) -> bool:
        return self._estate.count_open() > 0


KINDS: dict[str, Callable[[Faults], Hit | None]] = {
    "kill_worker": Faults.kill_worker,
    "kill_plugin": Faults.kill_plugin,
    "freeze_worker": Faults.freeze_worker,
    "kill_gateway": Faults.kill_gateway,
    "empty_redis": Faults.empty_redis,
    "freeze_redis": Faults.freeze_redis,
    "cut_redis": Faults.cut_redis,
    "kill_sweeper": Faults.kill_sweeper,
    "end_sessions": Faults.end_sessions,
    "restart_postgres": Faults.restart_postgres,
}


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()
