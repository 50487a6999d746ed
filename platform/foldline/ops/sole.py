"""One `up` or `demo` at a time in a state folder, and on ports that are free."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Occupied(Exception):
    """Something else is where this run wants to be; the message says what to do."""


@contextmanager
def sole_run(home: Path) -> Iterator[None]:
    """Hold `up.lock` in the state folder. Raises Occupied when another run has it.

    The kernel drops the lock with the process, so a crashed run leaves nothing behind.
    """
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "up.lock", "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Occupied(
                f"Foldline is already running in {home} (process {file.read().strip()}). Stop it "
                "there with Ctrl-C, or set FOLDLINE_HOME to another folder and other ports."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def require_port(port: int, *, variable: str, within_s: float = 5.0) -> None:
    """Raises Occupied unless the port of this machine can be taken.

    Waits a little: programs of a run that was killed may still be on their way out.
    """
    deadline = time.monotonic() + within_s
    while not _is_free(port):
        if time.monotonic() > deadline:
            raise Occupied(
                f"Port {port} is taken by another program. Set {variable} to a free one."
            )
        time.sleep(0.1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
