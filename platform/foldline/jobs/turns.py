"""SQLite lets one writer in at a time, and whoever finds it taken sleeps a while: the more try,
the longer one of them may find it taken each time. So the threads of a process take turns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

MOST_S = 0.3
"""Then it is not the others that hold it up, and it hears from the database itself."""

_turn = threading.RLock()


@contextmanager
def in_turn() -> Iterator[None]:
    """Around a transaction that writes jobs. On PostgreSQL nothing: it knows its queue."""
    if connection.vendor != "sqlite":
        yield
        return
    mine = _turn.acquire(timeout=MOST_S)
    try:
        yield
    finally:
        if mine:
            _turn.release()
