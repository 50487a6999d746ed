"""What came of a try, written down together with what follows from it."""

from __future__ import annotations

import random
from datetime import datetime

from django.db import transaction

from foldline.clock import database_now
from foldline.notify import messages
from foldline.notify.counts import count_try
from foldline.notify.endpoints import NOTIFIER, disable
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.notify.schedule import ONCE, RETRY_AFTER_S, Health, Outcome, Verdict, decide

MOST_TRIES_SHOWN = 20


def settle(delivery: Delivery, outcome: Outcome) -> None:
    """Write down what came of a try of a message as it was handed out, and what follows.

    What was dropped or asked for again meanwhile stays as it is.
    """
    with transaction.atomic():
        count_try(outcome)
        now = database_now()
        endpoint = (
            WebhookEndpoint.objects.select_for_update().filter(pk=delivery.endpoint_id).first()
        )
        if endpoint is None:
            return  # its tenant was deleted
        verdict = _verdict(delivery, endpoint, outcome, now=now)
        _write_health(endpoint, verdict, outcome, now=now)
        # Its time stands for this very try: what ends it or asks for it anew changes that.
        mine = Delivery.objects.filter(pk=delivery.pk, next_at=delivery.next_at)
        mine.update(
            attempts=delivery.attempts + 1,
            tries=[*delivery.tries, _told(delivery, outcome, now=now)][-MOST_TRIES_SHOWN:],
            state=_state_after(outcome, verdict),
            next_at=verdict.next_at,
            ended_at=None if verdict.next_at else now,
            note=verdict.note,
        )
        if verdict.disable:
            disable(endpoint.id, reason=verdict.disable, by=NOTIFIER)


def give_up(delivery: Delivery) -> None:
    """End a message whose outcome cannot be written down; it may be asked for again."""
    mine = Delivery.objects.filter(pk=delivery.pk, next_at=delivery.next_at)
    mine.update(
        state=Delivery.State.DEAD,
        next_at=None,
        ended_at=database_now(),
        note="What came of it could not be written down: a fault of Foldline.",
    )


def _verdict(
    delivery: Delivery, endpoint: WebhookEndpoint, outcome: Outcome, *, now: datetime
) -> Verdict:
    return decide(
        outcome,
        Health(
            failures=endpoint.failures,
            failing_since=endpoint.failing_since,
            paused_until=endpoint.paused_until,
        ),
        attempts=delivery.attempts + 1,
        pauses=ONCE if delivery.type == messages.PING else RETRY_AFTER_S,
        now=now,
        chance=random.random(),  # noqa: S311 - it spreads retries and keeps no secret
    )


def _state_after(outcome: Outcome, verdict: Verdict) -> Delivery.State:
    if outcome.taken:
        return Delivery.State.DELIVERED
    return Delivery.State.WAITING if verdict.next_at else Delivery.State.DEAD


def _write_health(
    endpoint: WebhookEndpoint, verdict: Verdict, outcome: Outcome, *, now: datetime
) -> None:
    health = verdict.health
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(
        failures=health.failures,
        failing_since=health.failing_since,
        paused_until=health.paused_until,
        answered_at=now if outcome.taken else endpoint.answered_at,
    )


def _told(delivery: Delivery, outcome: Outcome, *, now: datetime) -> dict[str, object]:
    return {
        "attempt": delivery.attempts + 1,
        "status": outcome.status,
        "ms": outcome.ms,
        "error": outcome.error or None,
        "at": now.isoformat(),
    }
