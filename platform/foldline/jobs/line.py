"""The line of waiting jobs of one revision: its flows' heads, and how many could be started."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, Min, Q, QuerySet

from foldline.jobs.models import Job
from foldline.jobs.rooms import rooms
from foldline.jobs.rows import moment, name
from foldline.jobs.states import State
from foldline.scheduling.fairness import Head
from foldline.tenants.quotas import read_quotas


def claimable(revision_id: UUID, *, now: datetime) -> QuerySet[Job]:
    """Jobs a worker could take now: waiting on their own, due, and still worth starting."""
    return Job.objects.filter(
        Q(not_before=None) | Q(not_before__lte=now),
        Q(start_by=None) | Q(start_by__gt=now),
        revision_id=revision_id,
        state=State.QUEUED,
        attached_to=None,
    )


_FIRST = """
select {columns} from jobs_job
where revision_id = %(revision)s and state = 'queued' and attached_to_id is null
and tenant_id = owner.tenant_id and priority = class.priority
and (not_before is null or not_before <= %(now)s)
and (start_by is null or start_by > %(now)s)
order by id limit 1
"""
_COLUMNS = "id, attempt, tenant_id, priority, estimate_gpu_s, created_at, input_size"
# PostgreSQL would rather read the whole table once than its key for each flow; SQLite has no
# lateral join and looks the key up.
_JOINED = {
    "postgresql": f"cross join lateral ({_FIRST.format(columns=_COLUMNS)}) as job",
    "sqlite": f"join jobs_job as job on job.id = ({_FIRST.format(columns='id')})",
}

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
select job.id, job.attempt, job.tenant_id, job.priority, job.estimate_gpu_s, job.created_at,
job.input_size
from owner
cross join (select 'interactive' as priority union all select 'batch') as class
{joined}
"""


def heads(revision_id: UUID, *, now: datetime) -> list[Head]:
    """The first claimable job of each flow, whatever its tenant may start."""
    parameters = {
        "revision": connection.ops.adapt_unknown_value(revision_id)
        if connection.vendor == "postgresql"
        else revision_id.hex,
        "now": connection.ops.adapt_datetimefield_value(now),
    }
    with connection.cursor() as cursor:
        cursor.execute(_HEADS.format(joined=_JOINED[connection.vendor]), parameters)
        rows = cursor.fetchall()
    return [_head(*row) for row in rows]


def _head(
    job_id: Any,
    attempt: int,
    tenant_id: Any,
    priority: str,
    estimate_gpu_s: float | None,
    created_at: Any,
    size: int,
) -> Head:
    return Head(
        job_id=name(job_id),
        attempt=attempt,
        tenant_id=name(tenant_id),
        priority=priority,
        estimate_gpu_s=estimate_gpu_s,
        since=moment(created_at),
        size=size,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Startable:
    """How many jobs could be started now, and since when the oldest of them is there."""

    count: int = 0
    oldest: datetime | None = None


def startable(revision_id: UUID, *, model_id: UUID, now: datetime) -> int:
    """How many of the waiting jobs could be started now, each tenant within its limits."""
    return startable_line(revision_id, model_id=model_id, now=now).count


def startable_line(revision_id: UUID, *, model_id: UUID, now: datetime) -> Startable:
    """The same, with the age of the oldest."""
    line = claimable(revision_id, now=now).order_by().values_list("tenant_id")
    waiting = {
        tenant_id: (number, oldest)
        for tenant_id, number, oldest in line.annotate(Count("id"), Min("created_at"))
    }
    open_to = rooms(read_quotas(waiting), model_id=model_id, now=now)
    free = {
        tenant: least
        for tenant, (number, _) in waiting.items()
        if (least := _least(number, open_to[tenant].places))
    }
    return Startable(
        count=sum(free.values()),
        oldest=min((waiting[tenant][1] for tenant in free), default=None),
    )


def _least(number: int, places: int | None) -> int:
    return number if places is None else min(number, places)
