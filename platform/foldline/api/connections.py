"""Database connections that outlive a request, and databases that do not."""

from __future__ import annotations

import select
from typing import Any

from django.db import connection


def close_if_dead(**_signal: Any) -> None:
    """Before a request: give up a connection whose server has ended it.

    An idle connection has nothing to read until its server says goodbye. Looking costs one
    system call, where Django's CONN_HEALTH_CHECKS asks the server, and without either the
    first request of every thread after a restart of the database would fail.
    """
    session = connection.connection
    if session is None or connection.vendor != "postgresql" or connection.in_atomic_block:
        return
    if (session.closed or _has_something_to_say(session)) and not connection.is_usable():
        connection.close()


def _has_something_to_say(session: Any) -> bool:
    poll = select.poll()
    poll.register(session.fileno(), select.POLLIN)
    return bool(poll.poll(0))
