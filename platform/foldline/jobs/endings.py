"""How an attempt ends that made no answer: its job goes back in line or ends, and what is attached
to the run goes on. Steps of `jobs.services`, inside its transactions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet

from foldline.clock import database_now
from foldline.errors import job_error
from foldline.jobs import pauses, tickets
from foldline.jobs.claims import Fence
from foldline.jobs.digests import with_digest
from foldline.jobs.failing import note_failure
from foldline.jobs.models import Attempt, Job
from foldline.jobs.retries import Verdict, like, verdict
from foldline.jobs.rooms import rooms_of_jobs
from foldline.jobs.sharing import fail_followers, promote_follower
from foldline.jobs.states import State

Json = Mapping[str, Any]


def verdict_on(fence: Fence, code: str) -> Verdict:
    """What follows when this attempt ends with `code`, given how those before it ended."""
    earlier = Attempt.objects.filter(
        job_id=fence.job_id, number__lt=fence.attempt, outcome__in=like(code)
    )
    attempt = 1 + (earlier.count() if fence.attempt > 1 else 0)
    return verdict(code, attempt=attempt, max_attempts=settings.MAX_ATTEMPTS)


def end_attempt(
    jobs: QuerySet[Job], error: Json, decision: Verdict, *, now: datetime
) -> State | None:
    """Put a running job back in line or end it; None when the guard held no row.

    A job whose cancel was answered never goes back: however the attempt ended, it is over.
    """
    if jobs.filter(cancel_requested=True).update(
        state=State.CANCELLED, lease_until=None, finished_at=now, error=job_error("cancelled")
    ):
        return State.CANCELLED
    target: State
    if decision.retry_after_s is not None:
        target = State.QUEUED
        delay = timedelta(seconds=decision.retry_after_s)
        changed = jobs.update(
            state=target,
            lease_until=None,
            error=error,
            not_before=now + delay if delay else None,
            # It has started in time once; from here on only the deadline counts.
            start_by=F("deadline"),
        )
    else:
        target = State.FAILED
        final = job_error("poison", cause=error) if decision.poison else error
        changed = jobs.update(
            state=target,
            lease_until=None,
            error=with_digest(final) if decision.dead_letter else final,
            dead_letter=decision.dead_letter,
            finished_at=now,
        )
    return target if changed else None


def promote(run_id: UUID, *, now: datetime) -> bool:
    """A run ended without an answer: the oldest job attached to it becomes the run."""
    heir = promote_follower(run_id, now=now)
    if heir is not None:
        owe_ticket(heir)
    return heir is not None


def settle_followers(
    run: Job, outcome: State, error: Json, decision: Verdict, *, now: datetime
) -> bool:
    """An attempt ended its run; whether one that was attached goes on in its place.

    What a run failed of is in the call itself, or was only this run's time.
    """
    if outcome is State.QUEUED:
        return False
    in_the_call = decision.dead_letter or error["code"] == "invalid_input"
    if outcome is State.CANCELLED or not in_the_call:
        return promote(run.id, now=now)
    if not error["retryable"]:
        note_failure(run, error, now=now)
    fail_followers(run.id, error=error, now=now)
    return False


def owe_ticket(job_id: UUID) -> None:
    """Send a ticket for a job that has become claimable, once that is committed."""
    job = (
        Job.objects.select_related("revision__model")
        .only("tenant_id", "model_id", "revision__model")
        .get(id=job_id)
    )
    if pauses.room(job.revision_id, now=database_now()) is not None:
        return  # while it is paused none is owed; resuming sends them
    (room,) = rooms_of_jobs([job], now=database_now()).values()
    if not room.is_open:
        return  # nor while its tenant may start no more; the end of one of its jobs sends it
    queue = tickets.queue_name(job.revision.model.name, number=job.revision.number)
    transaction.on_commit(lambda: tickets.send(queue))
