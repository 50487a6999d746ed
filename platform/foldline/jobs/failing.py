"""Calls that keep failing: the same call of a tenant, again and again, with the same end.

An agent that repeats what cannot succeed is told so instead of being given a card once more.
A call is what its fingerprint says, whether or not it may be answered from the cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F

from foldline.clock import database_now
from foldline.errors import RepeatFailure
from foldline.fresh import Fresh
from foldline.jobs.models import FailingCall, Job

MOST_FAILURES = 5
FORGET_AFTER = timedelta(hours=1)
KEEP_ROWS = timedelta(days=1)

failing_kept: Fresh[UUID, Mapping[str, FailingCall]] = Fresh()


def refuse_repeated(tenant_id: UUID, fingerprint: str) -> None:
    """Raises RepeatFailure for a call that failed more than five times in a row.

    By what is known of the tenant's calls, at most two seconds old: a submit asks nothing.
    """
    call = failing_kept.get(tenant_id, lambda: _failing_calls(tenant_id)).get(fingerprint)
    if call is None:
        return
    left_s = math.ceil((call.last_at + FORGET_AFTER - database_now()).total_seconds())
    raise RepeatFailure.of(call.first_error, failures=call.failures, retry_after_s=max(1, left_s))


def note_failure(job: Job, error: Mapping[str, Any], *, now: datetime) -> None:
    """A call has failed for good, of what lies in it."""
    mine = FailingCall.objects.filter(tenant_id=job.tenant_id, fingerprint=job.fingerprint)
    lately = mine.filter(last_at__gt=now - FORGET_AFTER)
    if lately.update(failures=F("failures") + 1, last_at=now):
        return
    mine.delete()
    first = FailingCall(
        tenant_id=job.tenant_id,
        fingerprint=job.fingerprint,
        failures=1,
        first_error=dict(error),
        last_at=now,
    )
    if not FailingCall.objects.bulk_create([first], ignore_conflicts=True):
        lately.update(failures=F("failures") + 1, last_at=now)


def note_success(job: Job) -> None:
    """A call was answered: what went before does not count."""
    FailingCall.objects.filter(tenant_id=job.tenant_id, fingerprint=job.fingerprint).delete()


def forget(*, now: datetime) -> None:
    """Remove what has not happened for a day."""
    FailingCall.objects.filter(last_at__lt=now - KEEP_ROWS).delete()


def _failing_calls(tenant_id: UUID) -> Mapping[str, FailingCall]:
    calls = FailingCall.objects.filter(
        tenant_id=tenant_id,
        failures__gt=MOST_FAILURES,
        last_at__gt=database_now() - FORGET_AFTER,
    )
    return {call.fingerprint: call for call in calls}
