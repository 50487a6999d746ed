"""The one clock that leases, deadlines and the order of jobs go by: the database's."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection


def database_now() -> datetime:
    """Current time of the database server (UTC).

    Workers may have wrong clocks; the database is the one clock they share. SQLite has no
    server: there the clock of this machine is the database's.
    """
    if connection.vendor != "postgresql":
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("select clock_timestamp()")
        (now,) = cursor.fetchone()
    return now  # type: ignore[no-any-return]  # the driver's rows are untyped
