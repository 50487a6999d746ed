"""How long the log of deliveries is kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef

from foldline.notify.models import Delivery, WebhookEndpoint

A_ROUND = 500


def clean(*, now: datetime) -> int:
    """One bounded round; the number of deliveries that were taken away. A deleted endpoint
    goes with its last delivery."""
    before = now - timedelta(days=settings.KEEP_DELIVERIES_DAYS)
    old = Delivery.objects.filter(ended_at__lt=before).order_by("ended_at")
    chosen = list(old.values_list("id", flat=True)[:A_ROUND])
    Delivery.objects.filter(id__in=chosen).delete()
    logged = Exists(Delivery.objects.filter(endpoint=OuterRef("pk")))
    WebhookEndpoint.objects.filter(~logged, deleted_at__lt=before).delete()
    return len(chosen)
