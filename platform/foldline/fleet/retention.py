"""Which rows of workers that are gone are kept, and which are not."""

from __future__ import annotations

from datetime import datetime

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from foldline.fleet.models import Worker
from foldline.fleet.peaks import STARTS


def forget_workers(*, before: datetime, limit: int) -> int:
    """Delete rows of workers that were last heard of before then; how many.

    Peaks, cold starts and forecasts go by the newest of each revision, and by those that had a
    whole card. So of each revision and part of a card the newest stay, however old they are.
    """
    number = Window(
        RowNumber(),
        partition_by=[F("revision_id"), F("share")],
        order_by=[F("started_at").desc(), F("id").desc()],
    )
    gone = Worker.objects.filter(state=Worker.State.GONE, last_seen__lt=before)
    old = gone.annotate(number=number).filter(number__gt=STARTS).order_by("started_at")
    chosen = list(old.values_list("id", flat=True)[:limit])
    # One that was buried by mistake may have come back since.
    Worker.objects.filter(id__in=chosen, state=Worker.State.GONE).delete()
    return len(chosen)
