"""A real PostgreSQL for a test, in a folder of its own, to be stopped and started at will."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest

Mode = Literal["fast", "immediate"]


def programs() -> Path:
    """The folder of PostgreSQL's programs. Skips at home, fails in CI, where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("PostgreSQL is not installed here")
    return found[-1].parent


@dataclass(kw_only=True)
class PostgresServer:
    """One server on a Unix socket; no port is opened."""

    folder: Path
    programs: Path

    @property
    def url(self) -> str:
        return f"postgres:///{self.folder}/postgres"

    def connect(self, **options: Any) -> psycopg.Connection:
        """A session of the test's own, committing each statement."""
        address = f"host={self.folder} dbname=postgres user={_user()} application_name=test"
        return psycopg.connect(address, **{"autocommit": True, **options})

    def create(self) -> None:
        _run([str(self.programs / "initdb"), "-D", str(self._data), "-U", _user(), "-A", "trust"])

    def start(self) -> None:
        options = f"-k '{self.folder}' -c listen_addresses='' -c fsync=off -c max_connections=100"
        self._control("-w", "-l", str(self.folder / "server.log"), "-o", options, "start")

    def stop(self, *, mode: Mode = "fast") -> None:
        self._control("-w", "-m", mode, "stop")

    def restart(self, *, mode: Mode) -> None:
        self.stop(mode=mode)
        self.start()

    def freeze(self) -> None:
        """New connections get no answer; those there are go on."""
        os.kill(self._pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def end_sessions(self) -> int:
        """End every session that is not a test's and wait until it is gone; gives how many."""
        with self.connect() as mine:
            ended = mine.execute(
                "select count(*) filter (where pg_terminate_backend(pid, 120000))"
                " from pg_stat_activity"
                " where application_name <> 'test' and backend_type = 'client backend'"
            ).fetchone()
        assert ended is not None
        return int(ended[0])

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _pid(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def _control(self, *arguments: str) -> None:
        _run([str(self.programs / "pg_ctl"), "-D", str(self._data), "-t", "240", *arguments])


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    found = programs()
    # A short path: the name of a Unix socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="foldline-pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")
    server = PostgresServer(folder=folder, programs=found)
    try:
        server.create()
        server.start()
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            server.thaw()
            server.stop(mode="immediate")
        shutil.rmtree(folder)


def _user() -> str:
    return os.environ.get("USER") or ("root" if os.geteuid() == 0 else os.getlogin())


def _run(command: list[str]) -> None:
    """As `nobody` when we are root, because PostgreSQL refuses to run as root."""
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", *command]
    # Output to a file, not a pipe: the server would inherit a pipe and never let it end.
    with tempfile.TemporaryFile() as told:
        status = subprocess.run(command, stdout=told, stderr=told, cwd="/").returncode
        told.seek(0)
        assert status == 0, told.read().decode(errors="replace")
