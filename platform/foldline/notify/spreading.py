"""From the outbox to endpoints: who hears of the end of a job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from foldline.clock import database_now
from foldline.ids import uuid7
from foldline.jobs.models import Job, Outbox
from foldline.jobs.outbox import JOB_ENDED
from foldline.notify import messages
from foldline.notify.deliveries import delivery_to
from foldline.notify.models import Delivery, WebhookEndpoint

A_TICK = 200


def spread() -> int:
    """Make a delivery of each row of the outbox for each endpoint that hears of it, and take
    the row away, in one transaction; the number of rows."""
    waiting = Outbox.objects.filter(topic=JOB_ENDED, delivered_at=None)
    if not waiting.exists():
        return 0
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
