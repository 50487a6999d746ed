"""Messages to endpoints: made, shown, asked for again, due."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from foldline.clock import database_now
from foldline.errors import DeliveryNotFound, WebhookDisabled
from foldline.ids import uuid7
from foldline.notify import messages
from foldline.notify.models import Delivery, WebhookEndpoint


def delivery_to(
    endpoint: WebhookEndpoint,
    *,
    event: UUID,
    kind: str,
    body: str,
    now: datetime,
    job_id: UUID | None = None,
) -> Delivery:
    """A message to an endpoint; dropped at once when that gets nothing any more."""
    made = Delivery(
        endpoint=endpoint, event=event, type=kind, job_id=job_id, body=body, created_at=now
    )
    if endpoint.deleted_at is None and endpoint.disabled_at is None:
        made.next_at = now
        return made
    made.state, made.ended_at = Delivery.State.DROPPED, now
    made.note = "The endpoint was deleted." if endpoint.deleted_at else "The endpoint was disabled."
    return made


def ping(endpoint: WebhookEndpoint) -> Delivery:
    """A test message, tried once. Raises WebhookDisabled."""
    now = database_now()
    with transaction.atomic():
        _end_rest(endpoint)
        made = delivery_to(
            endpoint, event=uuid7(), kind=messages.PING, body=messages.ping(at=now), now=now
        )
        made.save()
    return made


def redeliver(delivery: Delivery) -> Delivery:
    """Send it again now, whatever became of it: the same event, the whole schedule. Raises
    WebhookDisabled."""
    with transaction.atomic():
        _end_rest(delivery.endpoint)
        Delivery.objects.filter(pk=delivery.pk).update(
            state=Delivery.State.WAITING,
            attempts=0,
            next_at=database_now(),
            note="",
            ended_at=None,
        )
    return Delivery.objects.select_related("endpoint").get(pk=delivery.pk)


def _end_rest(endpoint: WebhookEndpoint) -> None:
    """Somebody who asks for a message thinks that it will be taken: do not wait with it."""
    working = WebhookEndpoint.objects.filter(pk=endpoint.pk, disabled_at=None, deleted_at=None)
    if not working.update(paused_until=None):
        raise WebhookDisabled


def deliveries_of(
    endpoint_id: UUID, *, before: UUID | None = None, limit: int = 50
) -> Sequence[Delivery]:
    """The endpoint's, newest first, those made before the delivery `before`."""
    found = Delivery.objects.filter(endpoint_id=endpoint_id).order_by("-id")
    return list((found.filter(id__lt=before) if before else found)[:limit])


def delivery_of(endpoint: WebhookEndpoint, *, delivery_id: UUID) -> Delivery:
    """Raises DeliveryNotFound."""
    found = Delivery.objects.filter(endpoint=endpoint, id=delivery_id).first()
    if found is None:
        raise DeliveryNotFound
    found.endpoint = endpoint
    return found


def endpoints_with_due(*, now: datetime) -> Sequence[WebhookEndpoint]:
    """Those that something waits for now and that have no rest, of tenants that are switched on."""
    due = _due(now=now).filter(endpoint=OuterRef("pk"))
    ready = Q(paused_until=None) | Q(paused_until__lte=now)
    return list(WebhookEndpoint.objects.filter(ready, Exists(due), tenant__active=True))


def due_of(
    endpoint: WebhookEndpoint, *, now: datetime, without: Collection[UUID], limit: int
) -> Sequence[Delivery]:
    """The first of an endpoint's messages that are to be tried now."""
    due = _due(now=now).filter(endpoint=endpoint).exclude(id__in=without)
    return list(due.order_by("next_at")[:limit])


def _due(*, now: datetime) -> QuerySet[Delivery]:
    return Delivery.objects.filter(state=Delivery.State.WAITING, next_at__lte=now)
