"""The whole line of a revision, read at once: every job a worker could take, by flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from django.db import connection

from foldline.catalog.models import Revision
from foldline.jobs.blocked import Blocked
from foldline.jobs.rooms import rooms
from foldline.scheduling.fairness import Head
from foldline.scheduling.flows import flow_of
from foldline.tenants.quotas import read_quotas

Row = tuple[str, str, UUID | str, int, float | None, int, float | str]

# In the order of the index, so that flows come whole and each by id.
_LINE = """
select {tenant_id}, priority, id, attempt, estimate_gpu_s, input_size, {created_at}
from jobs_job
where revision_id = %s and state = 'queued' and attached_to_id is null
and (not_before is null or not_before <= %s) and (start_by is null or start_by > %s)
order by tenant_id, priority, id
"""
# As the driver hands them over soonest: its own times and ids cost more than all the rest.
_SOONEST = {
    "postgresql": {
        "tenant_id": "tenant_id::text",
        "created_at": "extract(epoch from created_at)::float8",
    },
    "sqlite": {
        "tenant_id": "tenant_id",
        "created_at": "cast(created_at as text) || '+00:00'",
    },
}


@dataclass(frozen=True, kw_only=True)
class Held:
    """Jobs of a flow that a limit of their tenant keeps back."""

    by: Blocked
    ids: list[bytes]


@dataclass(frozen=True, kw_only=True)
class Line:
    """`flows`: by flow its jobs by id. `held`: the flows whose turn does not come."""

    flows: Mapping[str, list[Head]]
    held: Mapping[str, Held]


def line_of(revision: Revision, *, now: datetime) -> Line:
    """The line as a claim would see it, with the same limits and weights."""
    rows = _rows(revision.id, now=now)
    tenants = {raw: UUID(raw) for raw in dict.fromkeys(map(itemgetter(0), rows))}
    room_of = rooms(read_quotas(tenants.values()), model_id=revision.model_id, now=now)
    flows: dict[str, list[Head]] = {}
    held: dict[str, Held] = {}
    for (raw, priority), jobs in groupby(rows, key=itemgetter(0, 1)):
        tenant_id = tenants[raw]
        room, flow = room_of[tenant_id], flow_of(tenant_id, priority)
        if room.held_by is None:
            flows[flow] = [_head(tenant_id, room.weight, row) for row in jobs]
        else:
            held[flow] = Held(by=room.held_by, ids=[_uuid(row[2]).bytes for row in jobs])
    return Line(flows=flows, held=held)


def _rows(revision_id: UUID, *, now: datetime) -> list[Row]:
    """In the database's own types: 10,000 rows are cheap as long as they are raw."""
    at = connection.ops.adapt_datetimefield_value(now)
    own = revision_id if connection.vendor == "postgresql" else revision_id.hex
    with connection.cursor() as cursor:
        cursor.execute(_LINE.format(**_SOONEST[connection.vendor]), [own, at, at])
        rows: list[Row] = cursor.fetchall()
    return rows


def _head(tenant_id: UUID, weight: float, row: Row) -> Head:
    _, priority, job_id, attempt, estimate, size, created_at = row
    return Head(
        job_id=_uuid(job_id),
        attempt=attempt,
        tenant_id=tenant_id,
        priority=priority,
        estimate_gpu_s=estimate,
        since=_time(created_at),
        weight=weight,
        size=size,
    )


def _uuid(raw: UUID | str) -> UUID:
    return raw if isinstance(raw, UUID) else UUID(int=int(raw, 16))


def _time(raw: float | str) -> datetime:
    return datetime.fromisoformat(raw) if isinstance(raw, str) else datetime.fromtimestamp(raw, UTC)
