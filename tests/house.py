"""Foldline as processes on a database and a Redis that a test may take away from it.

Nothing of it runs inside the test: the test asks over HTTP and looks into the database.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from uuid import uuid4

from foldline.environment import ROOT
from foldline.jobs.states import TERMINAL
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer, free_port
from tests.worker_process import PATIENCE_S, PLUGINS, link_plain_runtime, wait_until

HEARTBEAT_S, LEASE_S, SWEEP_S = 0.3, 120.0, 0.2
"""The lease is for a machine so busy that a worker beats late. A worker that is to be lost gets
SHORT_LEASE, and so does the sweeper that is to notice."""

_FURNISH = f"""
from pathlib import Path
from foldline.catalog.models import Revision
from foldline.catalog.services import publish, sync
from foldline.tenants.services import ensure_tenant, issue_key
from model_plugins.registry import discover
sync(discover([Path({str(PLUGINS)!r})]))
Revision.objects.update(max_batch_size=1)
for revision in Revision.objects.all():
    publish(revision, by=None)
print(issue_key(ensure_tenant("lab", name="A laboratory"), name="test")[1])
"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the gateway said, and how long it took to say it."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]
    seconds: float


@dataclass(kw_only=True)
class Process:
    """One program of the house; its output is in `log`."""

    running: subprocess.Popen[bytes]
    log: Path

    def told(self) -> str:
        return self.log.read_text(errors="replace")

    def alive(self) -> bool:
        return self.running.poll() is None

    def signal(self, number: int) -> None:
        self.running.send_signal(number)

    def kill(self) -> None:
        if self.alive():
            self.running.kill()
        self.running.wait()


@dataclass(kw_only=True)
class House:
    """The processes of one Foldline; `key` is an API key of its one tenant."""

    folder: Path
    database_url: str
    redis: RedisServer
    port: int = field(default_factory=free_port)
    postgres: PostgresServer | None = None
    key: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    gates: dict[str, Path] = field(default_factory=dict)
    """By job: the file that lets it end."""

    def furnish(self) -> None:
        """Migrate, set the test plugins live, issue a key."""
        self.folder.mkdir(parents=True, exist_ok=True)
        link_plain_runtime(self.folder)
        self.manage("migrate", "--verbosity", "0")
        self.key = self.manage("shell", "--verbosity", "0", "--command", _FURNISH).split()[-1]

    def start_gateway(self, **environment: str) -> Process:
        gateway = self.start("gateway", "-m", "gunicorn", **environment)
        wait_until(lambda: self.get("/healthz").status == 200 or not gateway.alive())
        assert gateway.alive(), gateway.told()
        return gateway

    def start_sweeper(self, **environment: str) -> Process:
        return self.start("sweeper", "manage.py", "sweeper", **environment)

    def start_worker(self, model: str = "sleepy", **environment: str) -> Process:
        """A worker; returns when it is loaded."""
        worker = self.start(f"{model}-worker", "-m", "tasks.worker", model, **environment)
        loaded = f"fleet_worker where pid = {worker.running.pid} and state in ('ready', 'busy')"
        wait_until(lambda: self.count(loaded) or not worker.alive(), what="a loaded worker")
        assert worker.alive(), worker.told()
        return worker

    def start(self, name: str, *command: str, **environment: str) -> Process:
        log = self.folder / f"{name}-{len(self.processes)}.log"
        with log.open("wb") as output:
            running = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**self.environment(), **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        process = Process(running=running, log=log)
        self.processes.append(process)
        return process

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis.url,
            "FOLDLINE_HOME": str(self.folder),
            "FOLDLINE_PORT": str(self.port),
            "FOLDLINE_GATEWAY_PROCESSES": "1",
            "FOLDLINE_HEARTBEAT_S": str(HEARTBEAT_S),
            "FOLDLINE_LEASE_S": str(LEASE_S),
            "FOLDLINE_SWEEP_S": str(SWEEP_S),
            "PYTHONUNBUFFERED": "1",
            **self.settings,
        }

    def stop(self) -> None:
        for process in reversed(self.processes):
            if process.alive():
                process.signal(signal.SIGCONT)
                process.running.terminate()
                try:
                    process.running.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()

    def submit(self, model: str = "sleepy", *, key: str = "", **inputs: Any) -> Answer:
        """Submit a job; `key` is its idempotency key. No two are equal calls."""
        headers = {"Idempotency-Key": key} if key else {}
        mark = key or uuid4().hex
        usual = {"seconds": 0, "echo": mark} if model == "sleepy" else {"padding": mark}
        inputs = {**usual, **inputs}
        return self.post(f"/v1/models/{model}/jobs", {"inputs": inputs}, headers=headers)

    def accepted(self, model: str = "sleepy", **inputs: Any) -> str:
        """Submit a job that must be accepted; gives its id."""
        answer = self.submit(model, **inputs)
        assert answer.status == 202, answer
        return str(answer.body["id"])

    def held(self, **inputs: Any) -> str:
        """A job that runs, and goes on until `let_go`; gives its id."""
        gate = self.folder / f"gate-{uuid4().hex}"
        job = self.accepted(until=str(gate), **inputs)
        self.gates[job] = gate
        self.until(job, "running")
        return job

    def let_go(self, job_id: str) -> None:
        self.gates[job_id].touch()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The worker is at another job until the end of the block."""
        job_id = self.held()
        try:
            yield
        finally:
            self.let_go(job_id)

    def get(self, path: str) -> Answer:
        return self._ask("GET", path)

    def post(
        self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        content = {"Content-Type": "application/json", **(headers or {})}
        return self._ask("POST", path, body=json.dumps(body), headers=content)

    def _ask(self, method: str, path: str, **content: Any) -> Answer:
        """Status 0: nobody answers."""
        headers = {"Authorization": f"Bearer {self.key}", **content.pop("headers", {})}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        began = time.monotonic()
        try:
            connection.request(method, path, headers=headers, **content)
            answer = connection.getresponse()
            told = answer.read()
        except (ConnectionError, HTTPException):
            return Answer(status=0, headers={}, body={}, seconds=time.monotonic() - began)
        finally:
            connection.close()
        seconds = time.monotonic() - began
        body = json.loads(told) if told.startswith(b"{") else {}
        return Answer(
            status=answer.status, headers=dict(answer.headers), body=body, seconds=seconds
        )

    def query(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """What the database holds, read past Foldline."""
        if self.postgres is not None:
            with self.postgres.connect() as connection:
                return connection.execute(statement.encode()).fetchall()
        database = sqlite3.connect(self.folder / "db.sqlite3", timeout=PATIENCE_S)
        try:
            return database.execute(statement).fetchall()
        finally:
            database.close()

    def count(self, table: str) -> int:
        return int(self.query(f"select count(*) from {table}")[0][0])  # noqa: S608 - of the test

    def job(self, job_id: str) -> tuple[str, int, str]:
        """(state, attempt, code of the error) as the database has them."""
        plain = job_id if self.postgres else job_id.replace("-", "")
        ((state, attempt, error),) = self.query(
            f"select state, attempt, error from jobs_job where id = '{plain}'"  # noqa: S608
        )
        error = json.loads(error) if isinstance(error, str) else error
        return state, attempt, error["code"] if error else ""

    def until(self, job_id: str, *states: str) -> tuple[str, int, str]:
        """The job as it is in one of the states. One that has ended in another is not waited
        for."""
        job = self.job(job_id)

        def reached() -> bool:
            nonlocal job
            job = self.job(job_id)
            return job[0] in {*states, *TERMINAL}

        wait_until(reached, what=f"{states}")
        assert job[0] in states, f"{job}, not {states}"
        return job

    def attempts(self) -> int:
        return self.count("jobs_attempt")

    def together(self, asks: Sequence[Callable[[], Answer]]) -> list[Answer]:
        """Ask everything at once; the answers in the same order."""
        with ThreadPoolExecutor(len(asks)) as pool:
            return [asked.result() for asked in [pool.submit(ask) for ask in asks]]

    def manage(self, *arguments: str, **environment: str) -> str:
        """Run `manage.py`; gives what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env={**self.environment(), **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def built(
    folder: Path,
    *,
    redis: RedisServer,
    postgres: PostgresServer | None = None,
    **settings: str,
) -> Iterator[House]:
    """A furnished house; without `postgres` it lives on SQLite. Its processes end with it."""
    url = postgres.url if postgres else f"sqlite:///{folder / 'db.sqlite3'}"
    house = House(folder=folder, database_url=url, redis=redis, postgres=postgres)
    house.settings = settings
    try:
        house.furnish()
        yield house
    finally:
        house.stop()
