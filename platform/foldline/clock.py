"""The one clock that leases, deadlines and the order of jobs go by, the database's; and the days
and months that budgets and bills go by, those of UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

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


def day_of(at: datetime) -> date:
    """The UTC day of a moment."""
    return at.astimezone(UTC).date()


def midnight(day: date) -> datetime:
    """When a UTC day begins."""
    return datetime.combine(day, time(), tzinfo=UTC)


def next_month(day: date) -> date:
    """The first day of the month after."""
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
