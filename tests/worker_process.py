"""Real worker processes for tests: `python -m tasks.worker` on the test's own database."""

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

import psutil
from django.conf import settings
from django.db import connection

from foldline.environment import ROOT
from foldline.jobs.models import Job
from foldline.jobs.states import TERMINAL

PLUGINS = ROOT / "tests" / "plugins"
PATIENCE_S = 120.0
"""A machine that is busy with other tests may be slow, and no test is about that."""
SHORT_LEASE = {"FOLDLINE_LEASE_S": "4"}
"""For a worker that is to be lost. The others keep theirs, however late they beat."""


def database_url() -> str:
    """The URL of the database this test runs on, for a process to use the same."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    return f"{server}/{name}"


def environment(**more: str) -> dict[str, str]:
    """What a process of the platform needs to work with the test."""
    return {
        **os.environ,
        "DATABASE_URL": database_url(),
        "REDIS_URL": settings.REDIS_URL,
        "FOLDLINE_HOME": str(settings.HOME),
        "FOLDLINE_ARTIFACTS": str(settings.ARTIFACTS_DIR),
        "FOLDLINE_HEARTBEAT_S": "0.3",
        "FOLDLINE_LEASE_S": "120",
        "FOLDLINE_SWEEP_S": "0.5",
        **more,
    }


def link_plain_runtime(home: Path) -> None:
    """Make the runtime of the test plugins: this interpreter, since they need no packages."""
    python = home / "runtimes" / "plain" / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    if not python.exists():
        python.symlink_to(sys.executable)


def wait_until(true: Callable[[], object], *, within_s: float = PATIENCE_S, what: str = "") -> None:
    """Look again and again until it is true; fails after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what or true}"
        time.sleep(0.02)


@dataclass(kw_only=True)
class WorkerProcess:
    """One worker; its log is kept so that a failing test can show it."""

    model: str
    log: Path
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tasks.worker", self.model, *self.arguments],
                cwd=ROOT,
                env=environment(**self.environment),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def drain(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE_S)

    def told(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def running_worker(model: str, *, log: Path, **environment: str) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(model=model, log=log, environment=environment)
    worker.start()
    try:
        yield worker
    finally:
        if worker.process.poll() is None:
            worker.kill()


def until(job: Job, *states: str, within_s: float = PATIENCE_S) -> Job:
    """Wait until the job is in one of the states; the job as it is then. One that has ended in
    another is not waited for."""

    def reached() -> bool:
        job.refresh_from_db()
        return job.state in {*states, *TERMINAL}

    wait_until(reached, within_s=within_s, what=f"{job.state} {job.error} -> {states}")
    assert job.state in states, f"{job.state} {job.error}, not {states}"
    return job


def error_code(job: Job) -> str:
    assert job.error is not None
    return str(job.error["code"])


def has_ended(process: psutil.Process) -> bool:
    """Also one that nobody has collected yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def processes_of(worker: WorkerProcess) -> list[psutil.Process]:
    """The keeper, the plugin and whatever they started."""
    return psutil.Process(worker.process.pid).children(recursive=True)
