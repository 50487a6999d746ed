"""What the operators' metrics tell of webhooks. Kept in the database, which every gateway reads:
the notifier that counts is another process, and another one tomorrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, Min, Q

from foldline.clock import database_now
from foldline.jobs.models import Outbox
from foldline.jobs.outbox import JOB_ENDED
from foldline.notify.models import Delivery, TryCount, WebhookEndpoint
from foldline.notify.schedule import Outcome


@dataclass(frozen=True, kw_only=True)
class Undelivered:
    """Messages that nobody has taken yet; `oldest_s`: age of the oldest, 0 when there is none."""

    number: int
    oldest_s: float


def count_try(outcome: Outcome) -> None:
    # Another notifier may count the first one of its kind at this moment.
    count, _ = TryCount.objects.get_or_create(result=_result(outcome), defaults={"tries": 0})
    TryCount.objects.filter(pk=count.pk).update(tries=F("tries") + 1)


def _result(outcome: Outcome) -> TryCount.Result:
    if outcome.taken:
        return TryCount.Result.TAKEN
    return TryCount.Result.REFUSED if outcome.status else TryCount.Result.UNANSWERED


def tries() -> Mapping[str, int]:
    """By result, since the table was made."""
    counted = dict(TryCount.objects.values_list("result", "tries"))
    return {result.value: counted.get(result.value, 0) for result in TryCount.Result}


def undelivered() -> Mapping[str, Undelivered]:
    """By where they are: in the `outbox` until a notifier makes messages of them, then `waiting`
    for their next try. Those of tenants that are switched off are not sent and do not count."""
    now = database_now()
    outbox = Outbox.objects.filter(topic=JOB_ENDED, delivered_at=None)
    waiting = Delivery.objects.filter(state=Delivery.State.WAITING, endpoint__tenant__active=True)
    told = {"number": Count("id"), "since": Min("created_at")}
    return {
        "outbox": _undelivered(**outbox.aggregate(**told), now=now),
        "waiting": _undelivered(**waiting.aggregate(**told), now=now),
    }


def _undelivered(*, number: int, since: datetime | None, now: datetime) -> Undelivered:
    oldest_s = (now - since).total_seconds() if since else 0.0
    return Undelivered(number=number, oldest_s=max(0.0, oldest_s))


def endpoints_by_state() -> Mapping[str, int]:
    """As the admin calls their states; deleted ones do not count."""
    on = Q(disabled_at=None)
    return WebhookEndpoint.objects.filter(deleted_at=None).aggregate(
        well=Count("id", filter=on & Q(failures=0)),
        failing=Count("id", filter=on & Q(failures__gt=0)),
        disabled=Count("id", filter=~on),
    )
