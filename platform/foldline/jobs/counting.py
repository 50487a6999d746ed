"""How much of its limits a tenant uses: one statement, run while its quota is locked.

So of two submits at the same moment the second counts the first. PostgreSQL locks the rows of
`Quota`; SQLite lets one writer in at a time, and a transaction here begins as one. The clock is
the database's: ids say where to look, the rows say when they were made, and a row from the
future, left behind by a clock that was set back, does not count.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from foldline.clock import day_of
from foldline.errors import QuotaExceeded
from foldline.ids import first_id
from foldline.jobs.limits import (
    COUNTED,
    DAY,
    MINUTE_S,
    MONTH,
    REQUESTS,
    RUNNING,
    WAITING,
    Limit,
    Pair,
    Use,
    limits_set,
    most,
    refusal,
)
from foldline.jobs.models import Job
from foldline.jobs.recent import SKEW_S, made_since
from foldline.scheduling.fairness import DEFAULT_ESTIMATE_GPU_S
from foldline.tenants.quotas import Limits

LOCK = """
select 1 from tenants_quota
where tenant_id = %(tenant_id)s and (model_id is null or model_id = %(model_id)s)
order by id for update
"""

_CLOCK = f"""
clock as materialized (
    select now, now - interval '{MINUTE_S} seconds' as minute_ago,
    (lpad(to_hex(floor(extract(epoch from now) * 1000)::bigint - {(MINUTE_S + SKEW_S) * 1000}),
          12, '0') || repeat('0', 20))::uuid as first_id,
    (now at time zone 'utc')::date as today,
    date_trunc('month', now at time zone 'utc')::date as month
    from (select clock_timestamp() as now) as ticking
)"""  # noqa: S608 - numbers of this module

_REQUESTS = """
select count(*) as whole, count(*) filter (where model_id = %(model_id)s) as model
from jobs_job
where tenant_id = %(tenant_id)s and id >= {first_id}
and created_at > {minute_ago} and created_at <= {now}
"""
_LINE = f"""
select count(*) filter (where waits) as waiting_whole,
count(*) filter (where waits and mine) as waiting_model,
count(*) filter (where not waits) as running_whole,
count(*) filter (where not waits and mine) as running_model,
coalesce(sum(gpu_s), 0) as gpu_s_whole, coalesce(sum(gpu_s) filter (where mine), 0) as gpu_s_model
from (
    select state = 'queued' as waits, model_id = %(model_id)s as mine,
    coalesce(estimate_gpu_s, {DEFAULT_ESTIMATE_GPU_S}) as gpu_s
    from jobs_job where tenant_id = %(tenant_id)s and state in ('queued', 'running')
) as open
"""  # noqa: S608 - a number of this program
_SPENT = """
select coalesce(sum(gpu_seconds) filter (where today), 0) as day_whole,
coalesce(sum(gpu_seconds) filter (where today and mine), 0) as day_model,
coalesce(sum(gpu_seconds), 0) as month_whole,
coalesce(sum(gpu_seconds) filter (where mine), 0) as month_model
from (
    select gpu_seconds, day = {today} as today, model = %(model)s as mine
    from tenants_dailyuse where tenant_id = %(tenant_id)s and day >= {month}
) as used
"""
_NAMES = {
    "requests": ("whole", "model"),
    "line": (
        *("waiting_whole", "waiting_model", "running_whole", "running_model"),
        *("gpu_s_whole", "gpu_s_model"),
    ),
    "spent": ("day_whole", "day_model", "month_whole", "month_model"),
}
COLUMNS = ", ".join(f"{table}.{name}" for table, names in _NAMES.items() for name in names)
TABLES = "requests cross join line cross join spent"
_USED = {
    REQUESTS: "requests.{}",
    WAITING: "line.waiting_{}",
    DAY: "spent.day_{0} + line.gpu_s_{0}",
    MONTH: "spent.month_{0} + line.gpu_s_{0}",
}
Value = str | int | float | UUID | datetime | date | None


def use_of(
    limits: Limits, *, tenant_id: UUID, model_id: UUID, model: str, locked: bool = True
) -> Use:
    """What is used now; `locked`: the quota stays so until the transaction ends."""
    named: dict[str, Value] = {"tenant_id": tenant_id, "model_id": model_id, "model": model}
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            count = _select(limits, now="clock.now, ", of="clock, ")
            # One message, two statements: what counts must begin once the lock is there.
            cursor.execute(f"{LOCK}; {count}" if locked else count, named)
            if locked:
                cursor.nextset()
            return read_use(*cursor.fetchone())
        now = datetime.now(UTC)
        named.update(tenant_id=tenant_id.hex, model_id=model_id.hex, **_times(now))
        cursor.execute(_select(limits), named)
        return read_use(now, *cursor.fetchone())


def _select(limits: Limits, *, now: str = "", of: str = "") -> str:
    return f"with {tables(shape_of(limits))} select {now}{COLUMNS} from {of}{TABLES}"  # noqa: S608 - names of this module only


def read_use(now: datetime, *numbers: Any) -> Use:
    """The database's time and a row of `COLUMNS`."""
    pairs = [Pair(*map(float, pair)) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    names = ("requests", "waiting", "running", "open_gpu_s", "day_gpu_s", "month_gpu_s")
    return Use(now=now, **dict(zip(names, pairs, strict=True)))


Shape = tuple[tuple[str, int], ...]
"""Which limits are set, by name and place of a `Pair`; one statement serves all that are alike."""


def shape_of(limits: Limits) -> Shape:
    return tuple(
        (limit.name, limit.place) for limit in limits_set(limits, names=(*COUNTED, RUNNING))
    )


@cache
def tables(shape: Shape) -> str:
    """The common table expressions behind `COLUMNS`; what no limit asks for is not counted."""
    asked = {name for name, _ in shape}
    texts = {
        "requests": _REQUESTS if REQUESTS in asked else "",
        "line": _LINE if asked - {REQUESTS} else "",
        "spent": _SPENT if asked & {DAY, MONTH} else "",
    }
    postgresql = connection.vendor == "postgresql"
    times = {
        name: f"(select {name} from clock)" if postgresql else f"%({name})s"  # noqa: S608 - a name of this module
        for name in ("now", "minute_ago", "first_id", "today", "month")
    }
    nothing = {
        table: f"select {', '.join(f'0 as {name}' for name in names)}"
        for table, names in _NAMES.items()
    }
    bodies = [
        f"{table} as ({text.format(**times) or nothing[table]})" for table, text in texts.items()
    ]
    return ", ".join([_CLOCK, *bodies] if postgresql else bodies)


def room(shape: Shape) -> str:
    """The condition that one job more fits into all limits; its values are `bounds`."""
    return " and ".join(
        f"{_USED[name].format(_PLACES[place])} <= %({name}_{place})s"
        for name, place in shape
        if name in _USED
    )


def bounds(limits: Limits, *, estimate_gpu_s: float | None) -> dict[str, float]:
    """How much may be used of each limit, so that one job more fits."""
    return {
        f"{limit.name}_{limit.place}": most(limit, estimate_gpu_s) for limit in limits_set(limits)
    }


_PLACES = Pair._fields
_MINUTE = timedelta(seconds=MINUTE_S)


def _times(now: datetime) -> dict[str, Value]:
    """What SQLite is told, which has no clock of its own."""
    minute_ago = now - _MINUTE
    adapt = connection.ops.adapt_datetimefield_value
    return {
        "now": adapt(now),
        "minute_ago": adapt(minute_ago),
        "first_id": first_id(minute_ago - timedelta(seconds=SKEW_S)).hex,
        "today": str(day_of(now)),
        "month": str(day_of(now).replace(day=1)),
    }


def refused(
    limit: Limit, use: Use, *, tenant_id: UUID, model_id: UUID, model: str
) -> QuotaExceeded:
    """What the caller is told of a limit that has no room."""
    free_at = None
    if limit.name == REQUESTS:
        jobs = made_since(use.now - _MINUTE, now=use.now).filter(tenant_id=tenant_id)
        free_at = _free_at(jobs.filter(model_id=model_id) if limit.place else jobs, limit, use)
    return refusal(limit, use, model=model, free_at=free_at)


def _free_at(counted: QuerySet[Job], limit: Limit, use: Use) -> datetime:
    """When so many requests are more than a minute old that one more fits."""
    too_many = int(use.of(limit)) - limit.allowed
    oldest = counted.order_by("created_at").values_list("created_at", flat=True)
    return (oldest[too_many:].first() or use.now) + _MINUTE
