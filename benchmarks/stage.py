"""A Foldline of its own for a measurement: temporary state, real Redis, real processes.

Import it first: it chooses the state folder and the ports before Django reads its settings.
DATABASE_URL is kept when it names PostgreSQL.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import django

from tests.redis_server import free_port

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = ROOT / "tests" / "plugins"

PORT, REDIS_PORT, FLOWER_PORT = free_port(), free_port(), free_port()
HOME = Path(tempfile.mkdtemp(prefix="foldline-bench-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ.update(
    FOLDLINE_HOME=str(HOME),
    FOLDLINE_PORT=str(PORT),
    FOLDLINE_FLOWER_PORT=str(FLOWER_PORT),
    FOLDLINE_GATEWAY_PROCESSES="1",
    REDIS_URL=f"redis://127.0.0.1:{REDIS_PORT}/0",
    FOLDLINE_LOG_LEVEL="WARNING",
    DJANGO_SETTINGS_MODULE="foldline.settings",
    OMP_NUM_THREADS="1",
)
django.setup()

from django.core.management import call_command  # noqa: E402 - Django is set up first

from foldline.catalog.models import Model, Revision  # noqa: E402
from foldline.catalog.services import publish, sync  # noqa: E402
from foldline.ops.broker import answers, server_binary  # noqa: E402
from foldline.tenants.models import Quota  # noqa: E402
from foldline.tenants.services import ensure_tenant, issue_key  # noqa: E402
from model_plugins.registry import discover  # noqa: E402


def database() -> str:
    from django.db import connection

    return connection.vendor


@contextmanager
def process(*command: str, ready: Callable[[], bool], **environment: str) -> Iterator[int]:
    """Run a program until the end of the block; gives its process id once it is ready."""
    running = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=sys.stderr
    )
    try:
        deadline = time.monotonic() + 60
        while not ready():
            if running.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"did not become ready: {' '.join(command)}")
            time.sleep(0.05)
        yield running.pid
    finally:
        running.terminate()
        running.wait(60)


@contextmanager
def redis_server() -> Iterator[int]:
    """Redis or Valkey with its append-only file on, as in production."""
    folder = HOME / "redis"
    folder.mkdir()
    options = ["--port", str(REDIS_PORT), "--bind", "127.0.0.1", "--dir", str(folder)]
    durable = ["--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"]
    url = os.environ["REDIS_URL"]
    quiet = ["--loglevel", "warning"]
    with process(server_binary(), *options, *durable, *quiet, ready=lambda: answers(url)) as pid:
        yield pid


@contextmanager
def gateway(*, processes: int = 1) -> Iterator[int]:
    many = {"FOLDLINE_GATEWAY_PROCESSES": str(processes)}
    is_ready = lambda: get("/healthz")[0] == 200  # noqa: E731 - a condition
    with process(sys.executable, "-m", "gunicorn", ready=is_ready, **many) as pid:
        yield pid


@contextmanager
def worker(model: str, *, ready: Callable[[], bool]) -> Iterator[int]:
    with process(sys.executable, "-m", "tasks.worker", model, ready=ready) as pid:
        yield pid


@contextmanager
def sweeper() -> Iterator[int]:
    with process(sys.executable, "manage.py", "sweeper", ready=lambda: True) as pid:
        yield pid


def listens(port: int) -> bool:
    """Does somebody answer on this port of ours?"""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def prepare() -> str:
    """Migrate, make a tenant and a live no-op model; gives the tenant's API key."""
    call_command("migrate", verbosity=0, interactive=False)
    python = HOME / "runtimes" / "plain" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    sync(discover([PLUGINS]))
    set_live("sleepy")
    _, key = issue_key(ensure_tenant("bench", name="Benchmarks"), name="bench")
    return key


def limited_key() -> str:
    """The API key of a tenant with every limit there is, none of which is ever reached."""
    tenant = ensure_tenant("limited", name="With limits")
    most = {
        **dict.fromkeys(("requests_per_minute", "waiting", "running"), 10**6),
        **dict.fromkeys(("gpu_seconds_day", "gpu_seconds_month"), 10**9),
        "input_bytes": 10**6,
    }
    of_files = {"artifact_bytes": 10**12, "polls_per_minute": 10**6}
    Quota.objects.create(tenant=tenant, weight=2.0, **most, **of_files)
    Quota.objects.create(tenant=tenant, model=Model.objects.get(name="sleepy"), **most)
    return issue_key(tenant, name="bench")[1]


def set_live(model: str) -> None:
    publish(Revision.objects.get(model__name=model), by=None)


def get(path: str, *, key: str = "") -> tuple[int, bytes]:
    """Status and body; status 0 when nobody answers."""
    connection = HTTPConnection("127.0.0.1", PORT, timeout=10)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


class Agent:
    """A caller that keeps its connection."""

    def __init__(self, key: str, **headers: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", PORT, timeout=60)
        usual = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._headers = {**usual, **headers}

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        return self._ask("POST", path, body)

    def get(self, path: str) -> dict[str, Any]:
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        self._connection.request(method, path, body=body, headers=self._headers)
        answer = self._connection.getresponse()
        told = answer.read()
        assert answer.status < 400, told
        document: dict[str, Any] = json.loads(told)
        return document
