"""From the outbox to endpoints: who hears of the end of a job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import F, Q, QuerySet

from foldline.clock import database_now
from foldline.ids import uuid7
from foldline.jobs.faults import contained
from foldline.jobs.models import Job, Outbox
from foldline.jobs.outbox import JOB_ENDED
from foldline.notify import messages
from foldline.notify.deliveries import delivery_to
from foldline.notify.models import Delivery, WebhookEndpoint

A_TICK = 200
PART = "notify: outbox"
PUT_OFF = timedelta(minutes=10)
"""A faulty row: by then there may be a release that knows it."""


def spread() -> int:
    """Make a delivery of each row of the outbox for each endpoint that hears of it, and take
    the row away, in one transaction; the number of rows."""
    now = database_now()
    waiting = Outbox.objects.filter(topic=JOB_ENDED, delivered_at=None, not_before__lte=now)
    if not waiting.exists():
        return 0
    done = contained(PART, lambda: _spread(waiting), otherwise=None)
    return _one_by_one(waiting, now=now) if done is None else done


def _one_by_one(waiting: QuerySet[Outbox], *, now: datetime) -> int:
    """One of them is faulty: it is put off, and the others are told all the same."""
    total = 0
    for row_id in list(waiting.order_by("id").values_list("id", flat=True)[:A_TICK]):
        row = Outbox.objects.filter(id=row_id)
        done = contained(PART, partial(_spread, row), otherwise=None, of=row_id)
        total += done or 0
        if done is None:
            row.update(not_before=now + PUT_OFF, attempts=F("attempts") + 1)
    return total


def _spread(waiting: QuerySet[Outbox]) -> int:
    with transaction.atomic():
        locked = waiting.select_for_update(of=("self",), skip_locked=True)
        rows = list(locked.select_related("job__model").order_by("id")[:A_TICK])
        if rows:
            jobs = [row.job for row in rows]
            now, hearing = database_now(), _hearing(jobs)
            Delivery.objects.bulk_create(
                made for job in jobs for made in _deliveries(job, hearing, now=now)
            )
            Outbox.objects.filter(id__in=[row.id for row in rows]).delete()
    return len(rows)


def _hearing(jobs: Sequence[Job]) -> Sequence[WebhookEndpoint]:
    """The endpoints that may hear of one of the jobs. Locked, so that one that is disabled at this
    moment drops these messages, too."""
    of_all = Q(all_jobs=True, tenant_id__in={job.tenant_id for job in jobs})
    named = Q(id__in={job.webhook for job in jobs if job.webhook})
    return list(WebhookEndpoint.objects.filter(of_all | named).select_for_update().order_by("id"))


def _deliveries(
    job: Job, hearing: Sequence[WebhookEndpoint], *, now: datetime
) -> Sequence[Delivery]:
    event, body, kind = uuid7(), messages.job_ended(job), messages.type_of(job)
    return [
        delivery_to(endpoint, event=event, kind=kind, body=body, now=now, job_id=job.id)
        for endpoint in hearing
        if endpoint.tenant_id == job.tenant_id
        and (endpoint.all_jobs or endpoint.id == job.webhook)
        and (not endpoint.events or kind in endpoint.events)
    ]
