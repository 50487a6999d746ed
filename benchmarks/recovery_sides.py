"""Plain Celery and Foldline, each with a Redis of its own and two workers, to be hurt alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

import psutil
import redis

from benchmarks import stage
from benchmarks.plain_celery import VISIBILITY_S, work
from foldline.catalog.models import Revision
from foldline.fleet.models import Worker
from foldline.jobs.models import Attempt
from foldline.ops.broker import server_binary
from tests.redis_server import free_port

WORKERS = 2
SECONDS = 4.0
DOWN_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One time a job was computed, by the worker with this process id.

    Times are the machine's; `ended` is None while it runs and when it was cut off.
    """

    job: str
    worker: int
    began: float
    ended: float | None


def now() -> float:
    return time.time()


def wait(true: Callable[[], object], *, within_s: float) -> bool:
    """Look until it is true; False when it never was."""
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Started(ABC):
    """Processes of one side, and its Redis, which keeps nothing."""

    def __init__(self, *, redis_port: int) -> None:
        self.port = redis_port
        self.url = f"redis://127.0.0.1:{redis_port}/0"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.start_redis()

    def start_redis(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        quiet = ["--appendonly", "no", "--loglevel", "warning", "--dir", str(stage.HOME)]
        self.redis = self.start(server_binary(), *options, *quiet)
        assert wait(lambda: stage.listens(self.port), within_s=20)

    def start(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, cwd=stage.ROOT, env={**os.environ, **environment}, stdout=sys.stderr
        )

    def empty_redis(self) -> None:
        self.redis.kill()
        self.redis.wait()
        time.sleep(DOWN_S)
        self.start_redis()

    def cut_connections(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            for kind in ("normal", "pubsub"):
                client.client_kill_filter(_type=kind, skipme=True)

    @abstractmethod
    def start_worker(self) -> None:
        """Start one more worker."""

    @abstractmethod
    def submit(self) -> str:
        """Hand a job in; gives its name."""

    @abstractmethod
    def runs(self) -> list[Run]:
        """Every run so far, in the order they began."""

    @abstractmethod
    def patience_s(self, fault: str) -> float:
        """How long after a fault a job may still come back."""

    def kill_worker(self, pid: int) -> None:
        """And start another in its place."""
        (worker,) = [worker for worker in self.workers if worker.pid == pid]
        self.kill(worker)
        self.start_worker()

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """The worker and everything it started, as when its machine is lost."""
        family = psutil.Process(worker.pid).children(recursive=True)
        worker.kill()
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        worker.wait()
        self.workers.remove(worker)

    def stop(self) -> None:
        for worker in list(self.workers):
            self.kill(worker)
        self.redis.kill()
        self.redis.wait()


class CelerySide(Started):
    """Plain Celery. Its tasks write their runs into a file."""

    def __init__(self) -> None:
        super().__init__(redis_port=free_port())
        self.notes = stage.HOME / "notes"
        self.notes.touch()
        work.app.conf.update(broker_url=self.url)
        for _ in range(WORKERS):
            self.start_worker()

    def start_worker(self) -> None:
        name = f"plain-{uuid4().hex[:8]}@%h"
        command = ["-m", "celery", "-A", "benchmarks.plain_celery", "worker", "-n", name]
        environment = {"PLAIN_REDIS_URL": self.url, "PLAIN_NOTES": str(self.notes)}
        quiet = ["--loglevel", "ERROR"]
        worker = self.start(sys.executable, *command, *quiet, **environment)
        self.workers.append(worker)
        # It forks its pool when it is up.
        assert wait(lambda: psutil.Process(worker.pid).children(), within_s=30)

    def submit(self) -> str:
        name = uuid4().hex
        work.delay(name, SECONDS)
        return name

    def runs(self) -> list[Run]:
        began: dict[tuple[str, int], list[float]] = {}
        runs: list[Run] = []
        for line in self.notes.read_text().splitlines():
            what, job, worker, at = line.split()
            key = (job, int(worker))
            if what == "begin":
                began.setdefault(key, []).append(float(at))
            else:
                first = began[key].pop(0)
                runs.append(Run(job=job, worker=key[1], began=first, ended=float(at)))
        for (job, pid), times in began.items():
            runs += [Run(job=job, worker=pid, began=time, ended=None) for time in times]
        return sorted(runs, key=lambda run: run.began)

    def patience_s(self, fault: str) -> float:
        # By default it looks for late messages every 100 s.
        return VISIBILITY_S + 110 if fault == "worker_killed" else 10 * SECONDS


class OurSide(Started):
    """Foldline with its default settings; the database tells the runs."""

    def __init__(self) -> None:
        super().__init__(redis_port=stage.REDIS_PORT)
        self.key = stage.prepare()
        Revision.objects.update(max_batch_size=1)

    def start_worker(self) -> None:
        before = self._ready()
        self.workers.append(self.start(sys.executable, "-m", "tasks.worker", "sleepy"))
        assert wait(lambda: self._ready() > before, within_s=30)

    def _ready(self) -> int:
        return Worker.objects.filter(state="ready").count()

    def submit(self) -> str:
        body = {"inputs": {"seconds": SECONDS, "echo": uuid4().hex}}
        agent = stage.Agent(self.key)  # the gateway closes a connection that idles for long
        return str(agent.post("/v1/models/sleepy/jobs", json.dumps(body).encode())["id"])

    def runs(self) -> list[Run]:
        pids = dict(Worker.objects.values_list("name", "pid"))
        return [
            Run(
                job=str(attempt.job_id),
                worker=pids[attempt.worker],
                began=attempt.started_at.timestamp(),
                ended=_ended(attempt),
            )
            for attempt in Attempt.objects.order_by("started_at")
        ]

    def patience_s(self, fault: str) -> float:
        return 60


def _ended(attempt: Attempt) -> float | None:
    if attempt.outcome != "succeeded" or attempt.ended_at is None:
        return None
    return attempt.ended_at.timestamp()


@contextmanager
def celery_side() -> Iterator[CelerySide]:
    side = CelerySide()
    try:
        yield side
    finally:
        side.stop()


@contextmanager
def our_side() -> Iterator[OurSide]:
    side = OurSide()
    try:
        with stage.gateway(), stage.sweeper():
            for _ in range(WORKERS):
                side.start_worker()
            yield side
    finally:
        side.stop()
