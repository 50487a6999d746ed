"""The line of waiting jobs of one revision: its flows' heads, and how many could be claimed."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from foldline.jobs.models import Job
from foldline.jobs.states import State
from foldline.scheduling.fairness import Head


def claimable(revision_id: UUID, *, now: datetime) -> QuerySet[Job]:
    """Jobs a worker could take now: waiting on their own, due, and still worth starting."""
    return Job.objects.filter(
        Q(not_before=None) | Q(not_before__lte=now),
        Q(start_by=None) | Q(start_by__gt=now),
        revision_id=revision_id,
        state=State.QUEUED,
        attached_to=None,
    )


# One index lookup per tenant and one per flow, however many jobs wait. A plain DISTINCT
# would read the whole line.
_HEADS = """
with recursive owner(tenant_id) as (
    select (select tenant_id from jobs_job
            where revision_id = %(revision)s and state = 'queued' and attached_to_id is null
            order by tenant_id limit 1)
    union all
    select (select tenant_id from jobs_job
            where revision_id = %(revision)s and state = 'queued' and attached_to_id is null
            and tenant_id > owner.tenant_id
            order by tenant_id limit 1)
    from owner where owner.tenant_id is not null
)
select job.id, job.attempt, job.tenant_id, job.priority, job.estimate_gpu_s
from owner
cross join (select 'interactive' as priority union all select 'batch') as class
join jobs_job as job on job.id = (
    select id from jobs_job
    where revision_id = %(revision)s and state = 'queued' and attached_to_id is null
    and tenant_id = owner.tenant_id and priority = class.priority
    and (not_before is null or not_before <= %(now)s)
    and (start_by is null or start_by > %(now)s)
    order by id limit 1
)
"""


def heads(revision_id: UUID, *, now: datetime) -> list[Head]:
    """The first claimable job of each flow."""
    parameters = {
        "revision": connection.ops.adapt_unknown_value(revision_id)
        if connection.vendor == "postgresql"
        else revision_id.hex,
        "now": connection.ops.adapt_datetimefield_value(now),
    }
    with connection.cursor() as cursor:
        cursor.execute(_HEADS, parameters)
        rows = cursor.fetchall()
    return [_head(*row) for row in rows]


def _head(
    job_id: Any, attempt: int, tenant_id: Any, priority: str, estimate_gpu_s: float | None
) -> Head:
    # SQLite keeps a UUID as text; PostgreSQL's driver gives the value itself.
    return Head(
        job_id=UUID(str(job_id)),
        attempt=attempt,
        tenant_id=UUID(str(tenant_id)),
        priority=priority,
        estimate_gpu_s=estimate_gpu_s,
    )
