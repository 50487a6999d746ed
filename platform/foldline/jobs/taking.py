"""The step of a claim that chooses: inside the transaction that holds the model's queue."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from foldline.jobs import pauses
from foldline.jobs.breaker import read
from foldline.jobs.events import record
from foldline.jobs.line import claimable, heads
from foldline.jobs.models import Attempt, Job, QueueState
from foldline.jobs.states import State
from foldline.scheduling.fairness import next_job


def take(
    queue: QueueState, revision_id: UUID, *, owner: str, limit: int, now: datetime
) -> list[UUID]:
    """Start up to `limit` jobs in the order of `scheduling.next_job`; gives their ids."""
    taken: list[UUID] = []
    accounts = queue.accounts
    while len(taken) < limit:
        choice = next_job(accounts, heads(revision_id, now=now), now=now)
        # A job that is tried again runs alone: it may be what brought its companions down.
        if choice is None or (taken and choice.head.attempt):
            break
        head = choice.head
        # 0 rows: cancelled between reading the heads and here. Then it is no head any more.
        if _start(head.job_id, attempt=head.attempt, owner=owner, now=now):
            accounts = choice.accounts
            taken.append(head.job_id)
            if head.attempt:
                break
    if accounts is not queue.accounts:
        QueueState.objects.filter(pk=queue.pk).update(accounts=accounts, updated_at=now)
    return taken


def take_for_trial(
    queue: QueueState, revision_id: UUID, *, owner: str, now: datetime
) -> list[UUID]:
    """One job, while no other runs; rather one that has not crashed the model before."""
    if Job.objects.filter(revision_id=revision_id, state=State.RUNNING).exists():
        return []
    waiting = claimable(revision_id, now=now).order_by("id")
    crashed = read(queue.breaker).crashed
    job = waiting.filter(attempt=0).exclude(fingerprint__in=crashed).first() or waiting.first()
    if job is None or not _start(job.id, attempt=job.attempt, owner=owner, now=now):
        return []
    pauses.began_trial(queue, revision_id, now=now)
    return [job.id]


def _start(job_id: UUID, *, attempt: int, owner: str, now: datetime) -> bool:
    changed = Job.objects.filter(id=job_id, attempt=attempt, state=State.QUEUED).update(
        state=State.RUNNING,
        attempt=attempt + 1,
        owner=owner,
        lease_until=now + timedelta(seconds=settings.LEASE_S),
        started_at=now,
        not_before=None,
        progress=None,
    )
    if changed:
        Attempt.objects.create(job_id=job_id, number=attempt + 1, worker=owner, started_at=now)
        record(job_id, "running", at=now, attempt=attempt + 1)
    return bool(changed)
