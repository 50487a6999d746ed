"""The processes of one Foldline, to be hit and replaced: gateway, workers, sweeper, Redis,
PostgreSQL. Everything lives in a temporary folder and on ports of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import psycopg

from benchmarks.chaos.history import History
from tests.postgres_server import PostgresServer, running_postgres
from tests.redis_server import RedisServer

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 5
WAITING, RUNNING = 6, 3  # reached now and then, with two or three jobs open and bursts of eight
START_S = 240.0
LOADED = "select pid, name from fleet_worker where state in ('ready', 'busy')"


@dataclass(kw_only=True)
class Member:
    """One process. A worker's name is the owner of the jobs it claims."""

    process: subprocess.Popen[bytes]
    name: str = ""
    frozen: bool = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL to the process and, for a gateway, to what it has forked."""
        family = psutil.Process(self.process.pid).children() if self.alive else []
        self.process.kill()
        self.process.wait()
        for child in family:
            if "gunicorn" in " ".join(_command(child)):
                child.kill()

    def plugin(self) -> psutil.Process | None:
        """The process that runs the model: the innermost one."""
        if not self.alive:
            return None
        family = psutil.Process(self.process.pid).children(recursive=True)
        runners = [p for p in family if "model_plugins.runner" in _command(p)]
        return next((p for p in runners if "keeper.py" not in " ".join(_command(p))), None)


@dataclass(kw_only=True)
class Estate:
    """`key` is the API key of the one tenant; `told` the history of the estate itself."""

    folder: Path
    postgres: PostgresServer
    redis: RedisServer
    key: str
    port: int
    told: History
    fence: bool
    with_sweeper: bool
    workers: list[Member] = field(default_factory=list)
    gateway: Member = field(init=False)
    sweeper: Member | None = None

    @property
    def histories(self) -> Path:
        return self.folder / "histories"

    def start(self) -> None:
        self.start_gateway()
        self.start_sweeper()
        for _ in range(WORKERS):
            self.start_worker()
        wait_for(lambda: len(self.ready_workers()) == WORKERS, what="workers that are ready")

    def start_gateway(self) -> None:
        self.gateway = Member(process=self._run("-m", "gunicorn", log="gateway"))

    def start_sweeper(self) -> None:
        if self.with_sweeper:
            self.sweeper = Member(process=self._watched("django", "sweeper", log="sweeper"))
            self.told.write("sweeper_started")

    def start_worker(self) -> None:
        process = self._watched("tasks.worker", "sleepy", log="worker")
        self.workers.append(Member(process=process))

    def replace(self, worker: Member) -> None:
        self.workers.remove(worker)
        self.start_worker()

    def ready_workers(self) -> list[Member]:
        """Loaded workers; learns their names from their rows."""
        self._learn(self.rows(LOADED))
        return [w for w in self.workers if w.name and w.alive and not w.frozen]

    def _learn(self, loaded: list[tuple[Any, ...]]) -> None:
        """Which of the workers have loaded by now, and by what name."""
        names = dict(loaded)
        for worker in self.workers:
            if not worker.name and (name := names.get(worker.process.pid)):
                worker.name = name
                self.told.write("up", name=name)

    def running(self) -> dict[str, tuple[str, int]]:
        """What runs now: worker's name → (job, attempt)."""
        found = self.rows("select owner, id::text, attempt from jobs_job where state = 'running'")
        return {owner: (job, attempt) for owner, job, attempt in found}

    def count_open(self) -> int:
        """Jobs that wait or are at work, without those whose worker was hit. Raises
        psycopg.OperationalError."""
        with self.postgres.connect() as connection:
            self._learn(connection.execute(LOADED).fetchall())
            working = [w.name for w in self.workers if w.name and w.alive and not w.frozen]
            found = connection.execute(
                "select count(*) from jobs_job"
                " where state = 'queued' or state = 'running' and owner = any(%s)",
                [working],
            ).fetchone()
        return int(found[0]) if found else 0

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the database, for as long as it takes to answer."""
        give_up = time.monotonic() + 60
        while True:
            try:
                with self.postgres.connect() as connection:
                    return connection.execute(query, values).fetchall()
            except psycopg.OperationalError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)

    def heal(self) -> None:
        """Undo every fault that lasts and replace what has died."""
        self.redis.thaw()
        for worker in list(self.workers):
            worker.process.send_signal(signal.SIGCONT)
            worker.frozen = False
            if not worker.alive:
                self.replace(worker)
        if not self.gateway.alive:
            self.start_gateway()
        if self.sweeper and not self.sweeper.alive:
            self.start_sweeper()

    def stop(self) -> None:
        members = [self.gateway, *self.workers, *([self.sweeper] if self.sweeper else [])]
        for member in members:
            member.process.send_signal(signal.SIGCONT)
            member.process.terminate()
        for member in members:
            try:
                member.process.wait(20)
            except subprocess.TimeoutExpired:
                member.kill()

    def _watched(self, *program: str, log: str) -> subprocess.Popen[bytes]:
        return self._run("-m", "benchmarks.chaos.witness", *program, log=log)

    def _run(self, *command: str, log: str) -> subprocess.Popen[bytes]:
        watched = {
            "FOLDLINE_CHAOS_HISTORY": str(self.histories),
            "FOLDLINE_CHAOS_FENCE": "on" if self.fence else "off",
        }
        with (self.folder / f"{log}.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**os.environ, **watched},
                stdout=output,
                stderr=output,
            )


def wait_for(true: Callable[[], object], *, within_s: float = START_S, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        time.sleep(0.1)


@contextmanager
def standing(*, fence: bool, sweeper: bool) -> Iterator[Estate]:
    """An estate that stands, and is gone afterwards."""
    with running_postgres() as postgres:
        os.environ["DATABASE_URL"] = postgres.url
        # Reads the environment as it is imported, so not before the database is known.
        from benchmarks import stage

        key = _furnish(stage)
        server = RedisServer(folder=stage.HOME, port=stage.REDIS_PORT)
        server.start()
        (stage.HOME / "histories").mkdir()
        estate = Estate(
            folder=stage.HOME,
            postgres=postgres,
            redis=server,
            key=key,
            port=stage.PORT,
            told=History(stage.HOME / "histories", "estate"),
            fence=fence,
            with_sweeper=sweeper,
        )
        try:
            estate.start()
            yield estate
        finally:
            estate.stop()
            server.kill()


def _furnish(stage: ModuleType) -> str:
    from django.db import connection

    from foldline.catalog.models import Revision
    from foldline.tenants.models import Quota, Tenant

    key: str = stage.prepare()
    Revision.objects.update(max_batch_size=1)
    Quota.objects.create(tenant=Tenant.objects.get(), waiting=WAITING, running=RUNNING)
    connection.close()
    return key


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def lease_settings() -> Mapping[str, float]:
    """The times of the protocol in this run."""
    from django.conf import settings

    return {
        "lease_s": settings.LEASE_S,
        "heartbeat_s": settings.HEARTBEAT_S,
        "sweep_s": settings.SWEEP_S,
    }
