"""Foldline on one machine: which programs there are, and the order they start in."""

from __future__ import annotations

import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.db import Error

from foldline.environment import secret
from foldline.jobs.pauses import try_starts_again
from foldline.ops.broker import answers, broker_program, set_aside_data
from foldline.ops.programs import Program
from foldline.ops.sole import require_port
from foldline.ops.supervisor import Supervisor, SupervisorError

PYTHON = sys.executable
LOOPBACK = "127.0.0.1"
LONGEST_S = 24 * 3600.0


class Trouble(Exception):
    """Something this run was given cannot be used; the message says what to do."""


def require_ports() -> None:
    """Raises Occupied for the first port that somebody else has."""
    require_port(settings.PORT, variable="FOLDLINE_PORT")
    require_port(settings.FLOWER_PORT, variable="FOLDLINE_FLOWER_PORT")
    if not os.environ.get("REDIS_URL"):
        require_port(settings.REDIS_PORT, variable="FOLDLINE_REDIS_PORT")


def start_broker(supervisor: Supervisor) -> None:
    """REDIS_URL's Redis if it is set, else one of our own. Raises Trouble or SupervisorError."""
    if os.environ.get("REDIS_URL"):
        _require_given_redis()
        return
    folder = settings.HOME / "valkey"
    program = broker_program(
        folder=folder,
        port=settings.REDIS_PORT,
        password=secret("redis_password"),
        url=settings.REDIS_URL,
    )
    try:
        supervisor.start(program)
    except SupervisorError:
        if not (folder / "appendonlydir").exists():
            raise
        supervisor.stop(urgent=lambda: False)
        aside = set_aside_data(folder)
        supervisor.say(f"valkey could not read its data: set aside as {aside.name}, starting empty")
        supervisor.start(program)


def _require_given_redis() -> None:
    if not answers(settings.REDIS_URL):
        parts = urlsplit(settings.REDIS_URL)
        raise Trouble(
            f"REDIS_URL names {parts.scheme}://{parts.hostname}:{parts.port or 6379}, and no Redis "
            "answers there. Start it, correct REDIS_URL, or unset it to get one of our own."
        )


def migrate() -> None:
    """Bring the database's schema up to date. Raises Trouble."""
    try:
        call_command("migrate", verbosity=0, interactive=False)
    except Error as error:
        place = settings.DATABASES["default"]
        raise Trouble(
            f"The database {place['NAME']} ({place['HOST'] or 'on this machine'}) could not be "
            f"brought up to date: {error}. Look at DATABASE_URL."
        ) from error


def start_services(supervisor: Supervisor, *, worker_grace_s: float | None) -> None:
    """Start all services and wait until they are ready. Workers are the scaler's: they come with
    the first job of their model.

    A worker gets `worker_grace_s` to finish at the end; None: as long as its jobs may run.
    """
    try_starts_again()
    for program in services(worker_grace_s=worker_grace_s):
        supervisor.add(program)
    supervisor.wait_ready()


def services(*, worker_grace_s: float | None = None) -> Iterator[Program]:
    """All that runs beside the broker, in the order it is started."""
    yield gateway()
    for name in ("sweeper", "forecaster", "notifier"):
        # The notifier gives receivers their 15 s.
        yield Program(name=name, command=(PYTHON, "manage.py", name), grace_s=20)
    yield scaler(worker_grace_s=worker_grace_s)
    yield flower()


def gateway() -> Program:
    return Program(
        name="gateway",
        command=(PYTHON, "-m", "gunicorn"),
        ready=lambda _pid: _answers_http(f"http://{LOOPBACK}:{settings.PORT}/healthz"),
        grace_s=35,  # gunicorn itself gives its requests 30 s
    )


def flower() -> Program:
    """Flower on loopback. Its password travels in the environment, not on the command line."""
    return Program(
        name="flower",
        command=(PYTHON, "-m", "celery", "-A", "tasks.app", "flower"),
        environment={
            "FLOWER_ADDRESS": LOOPBACK,
            "FLOWER_PORT": str(settings.FLOWER_PORT),
            "FLOWER_BASIC_AUTH": f"ops:{secret('flower_password')}",
            "FLOWER_READ_ONLY": "true",
            "FLOWER_TASKS_COLUMNS": "uuid,state,args,result,received,runtime,worker",
        },
        ready=lambda _pid: _answers_http(f"http://{LOOPBACK}:{settings.FLOWER_PORT}/healthcheck"),
        grace_s=5,
    )


def scaler(*, worker_grace_s: float | None) -> Program:
    """Starts workers as its own children, and lets them finish when it is told to end."""
    return Program(
        name="scaler",
        command=(PYTHON, "-m", "scaler"),
        environment={
            "FOLDLINE_SCALER_TARGET": "local",
            "FOLDLINE_WORKER_GRACE_S": str(worker_grace_s or 0),
        },
        # How long is enough it knows itself: it knows what each worker is at.
        grace_s=LONGEST_S if worker_grace_s is None else worker_grace_s + 10,
        # Its workers die with it. Their jobs are taken up again from the database; orphans would
        # compute them for nobody.
        orphan_signal=signal.SIGKILL,
    )


def _answers_http(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own, on loopback
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
