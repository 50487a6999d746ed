"""What happened to a job, appended in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection

from foldline.jobs import news
from foldline.jobs.models import Event, Job
from foldline.jobs.rows import moment, rows_of

_READ = """
select job_id, sequence, kind, data, at from jobs_event where job_id {these} order by sequence
"""
_APPEND = """
insert into jobs_event (job_id, sequence, kind, data, at)
select %s, coalesce(max(sequence), 0) + 1, %s, %s, %s from jobs_event where job_id = %s
"""


def record(job_id: UUID, kind: str, *, at: datetime, **data: Any) -> None:
    """Append an event, and tell who waits for it once it is committed."""
    append(job_id, kind, at=at, **data)
    news.tell(job_id)


def append(job_id: UUID, kind: str, *, at: datetime, **data: Any) -> None:
    """Append an event that nobody can be waiting for, as the first one of a new job. Inside
    the transaction of the change it tells, whose row lock keeps the sequence free of gaps and
    doubles."""
    key = Job._meta.pk.get_db_prep_value(job_id, connection)
    told = Event._meta.get_field("data").get_db_prep_value(data, connection)
    when = connection.ops.adapt_datetimefield_value(at)
    with connection.cursor() as cursor:
        cursor.execute(_APPEND, [key, str(kind), told, when, key])


@dataclass(frozen=True, kw_only=True, slots=True)
class Happened:
    """An event as it was written down; `at` in UTC."""

    sequence: int
    kind: str
    data: Mapping[str, Any]
    at: datetime


def events_of(jobs: Collection[UUID]) -> dict[UUID, list[Happened]]:
    """All that happened to these jobs, in order. One query past the ORM."""
    told: dict[UUID, list[Happened]] = {job_id: [] for job_id in jobs}
    for job_id, sequence, kind, data, at in rows_of(jobs, _READ):
        event = Happened(sequence=sequence, kind=kind, data=orjson.loads(data), at=moment(at))
        told[job_id].append(event)
    return told
