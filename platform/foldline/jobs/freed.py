"""Tickets of jobs that a limit of their tenant held back."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.jobs import pauses, tickets
from foldline.jobs.limits import RUNNING, limits_set
from foldline.jobs.line import claimable
from foldline.jobs.models import Job, Priority
from foldline.jobs.rooms import rooms
from foldline.jobs.states import State
from foldline.tenants.quotas import limits_of, quotas_of


def place_freed(*, tenant_id: UUID, model_id: UUID) -> None:
    """A running job has ended: once that is committed, send a ticket for the job of its tenant
    that may start instead. For tenants without a running limit nothing was held back."""
    limits = limits_of(tenant_id, model_id=model_id)
    if not any(limits_set(limits, names=(RUNNING,))):
        return
    model = model_id if limits.whole.running is None else None
    transaction.on_commit(lambda: _send_next(tenant_id, model_id=model), robust=True)


def _send_next(tenant_id: UUID, *, model_id: UUID | None) -> None:
    """One ticket, to the queue of the tenant's oldest job that may be started now."""
    now = database_now()
    for revision in _by_age(tenant_id, model_id=model_id, now=now):
        own = {tenant_id: quotas_of(tenant_id)}
        room = rooms(own, model_id=revision.model_id, now=now)[tenant_id]
        if room.is_open and pauses.room(revision.id, now=now) is None:
            tickets.send(tickets.queue_name(revision.model.name, number=revision.number))
            return


def _by_age(tenant_id: UUID, *, model_id: UUID | None, now: datetime) -> list[Revision]:
    """The revisions of which the tenant has claimable jobs, the one with the oldest first."""
    waiting = Job.objects.filter(tenant_id=tenant_id, state=State.QUEUED, attached_to=None)
    if model_id is not None:
        waiting = waiting.filter(model_id=model_id)
    wanted = waiting.order_by().values_list("revision_id", flat=True).distinct()
    first: dict[UUID, Revision] = {}
    for revision in Revision.objects.filter(id__in=list(wanted)).select_related("model"):
        if (job := _first(tenant_id, revision.id, now=now)) is not None:
            first[job] = revision
    return [first[job] for job in sorted(first)]


def _first(tenant_id: UUID, revision_id: UUID, *, now: datetime) -> UUID | None:
    """The tenant's oldest claimable job. One look into the index for each of its flows."""
    line = claimable(revision_id, now=now).filter(tenant_id=tenant_id).order_by("id")
    heads = (line.filter(priority=each).values_list("id", flat=True).first() for each in Priority)
    return min((job for job in heads if job is not None), default=None)
