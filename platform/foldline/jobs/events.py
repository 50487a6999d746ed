"""What happened to a job, appended in order."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from foldline.jobs import news
from foldline.jobs.models import Event, Job

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
