"""Jobs that were made lately. Ids say where to look for them, rows say when they were made."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import QuerySet

from foldline.ids import first_id
from foldline.jobs.models import Job

SKEW_S = 5
"""How far a gateway's clock, which makes the ids, may be behind the database's."""


def made_since(since: datetime, *, now: datetime) -> QuerySet[Job]:
    """Jobs made after `since` and until `now`: one from the future, left behind by a clock that
    was set back, does not count."""
    return Job.objects.filter(
        id__gte=first_id(since - timedelta(seconds=SKEW_S)),
        created_at__gt=since,
        created_at__lte=now,
    )
