"""The statements that write a job down. Text only.

A cursor and the columns that differ between calls: the ORM's create costs 2.5 times as much,
and this is the one write every caller waits for.
"""

from __future__ import annotations

from functools import cache

from foldline.jobs import counting
from foldline.scheduling.walk import COUNTED_AHEAD

COLUMNS = (
    *("id", "tenant_id", "model_id", "revision_id", "priority", "session"),
    *("inputs", "normalized_input", "seed", "seed_origin", "fingerprint", "warnings"),
    *("idempotency_key", "payload_digest", "traceparent", "shared"),
    *("input_size", "estimate_gpu_s", "next_models", "notify", "webhook"),
)
JSON = ("inputs", "normalized_input", "warnings", "next_models")
RELATIVE = ("start_within_s", "deadline_s")
"""Told in seconds from now; on PostgreSQL the database's now."""
_CONSTANTS = {
    "state": "'queued'",
    "attempt": "0",
    "owner": "''",
    "cancel_requested": "false",
    "dead_letter": "false",
    "gpu_seconds": "0",
}
_TIMES = ("created_at", "start_by", "deadline")
_NAMES = ", ".join([*COLUMNS, *_TIMES, *_CONSTANTS])


def _values_of(*times: str, value: str = "%({})s") -> str:
    return ", ".join([*map(value.format, COLUMNS), *times, *_CONSTANTS.values()])


# In the order of the index `job_line`, and of nothing else: the jobs in front in its own flow.
AHEAD = f"""
select count(*) from (
    select 1 from jobs_job where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s
    and priority = %(priority)s and state = 'queued' and attached_to_id is null
    limit {COUNTED_AHEAD}
) as in_front
"""  # noqa: S608 - a number of this program
INSERT = (
    f"insert into jobs_job ({_NAMES}) values ({_values_of(*(f'%({name})s' for name in _TIMES))})"  # noqa: S608 - names of this module only
    " on conflict do nothing"
)
EVENT = (
    "insert into jobs_event (job_id, sequence, kind, data, at)"
    " values (%(id)s, 1, 'queued', '{}', %(created_at)s)"
)


def _postgres_insert(now: str, *, source: str, value: str = "%({})s") -> str:
    """The job, its first event and its times, as common tables. `value`: how a column's value
    is named."""
    deadline = f"{now} + make_interval(secs => {value.format('deadline_s')})"
    start = f"{now} + make_interval(secs => {value.format('start_within_s')})"
    # least() ignores nulls: a job without start_within_s must still start before its deadline.
    return f"""
job as (
    insert into jobs_job ({_NAMES})
    select {_values_of(now, f"least({start}, {deadline})", deadline, value=value)} {source}
    on conflict do nothing
    returning id, created_at, start_by, deadline
), event as (
    insert into jobs_event (job_id, sequence, kind, data, at)
    select id, 1, 'queued', '{{}}', created_at from job
)
"""  # noqa: S608 - names of this module only


POSTGRES_INSERT = f"""
with {_postgres_insert("statement_timestamp()", source="")}
select created_at, start_by, deadline, ({AHEAD}) from job
"""  # noqa: S608 - names of this module only


_TYPES = {
    **dict.fromkeys(("id", "tenant_id", "model_id", "revision_id", "webhook"), "uuid"),
    **dict.fromkeys(JSON, "jsonb"),
    **dict.fromkeys(("shared", "notify"), "boolean"),
    **dict.fromkeys(("seed", "input_size"), "bigint"),
    **dict.fromkeys(RELATIVE, "double precision"),
    "estimate_gpu_s": "double precision",
}
_FIELDS = ", ".join(f"{name} {_TYPES.get(name, 'text')}" for name in (*COLUMNS, *RELATIVE))
# Many jobs are one value, whatever their number: a document that the server takes apart.
_ROWS = f"from json_to_recordset(%(rows)s::json) as row ({_FIELDS})"
POSTGRES_INSERT_ALL = " ".join(
    f"""
with {_postgres_insert("statement_timestamp()", source=_ROWS, value="row.{}")}
select id, created_at, start_by, deadline from job
""".split()  # noqa: S608 - names of this module only
)


@cache
def counted_insert(shape: counting.Shape) -> str:
    where = f" where {room}" if (room := counting.room(shape)) else ""
    insert = _postgres_insert("clock.now", source=f"from clock, {counting.TABLES}{where}")
    text = f"""
{counting.LOCK};
with {counting.tables(shape)}, {insert}
select clock.now, job.created_at, job.start_by, job.deadline, ({AHEAD}), {counting.COLUMNS}
from clock cross join {counting.TABLES} left join job on true
"""  # noqa: S608 - names of this module only
    # The driver splits a text of more than 4096 characters anew each time.
    return " ".join(text.split())
