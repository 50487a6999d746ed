"""The step of a claim that chooses: inside the transaction that holds the model's queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from foldline.fleet.services import share_of
from foldline.jobs import pauses
from foldline.jobs.breaker import read
from foldline.jobs.charges import settled
from foldline.jobs.events import record
from foldline.jobs.line import claimable, heads
from foldline.jobs.models import Attempt, Job, QueueState
from foldline.jobs.rooms import Room, keeps_whole, rooms
from foldline.jobs.states import State
from foldline.scheduling.fairness import Head, next_job
from foldline.tenants.quotas import read_quotas


def take(
    queue: QueueState, revision_id: UUID, *, owner: str, limit: int, now: datetime
) -> list[UUID]:
    """Start up to `limit` jobs in the order of `scheduling.next_job`; gives their ids.

    Flows whose tenant may start no more stand aside: others go on.
    """
    accounts = settled(queue)
    waiting = heads(revision_id, now=now)
    door = _Door(queue.model_id, waiting, now=now)
    attempts: list[Attempt] = []
    while len(attempts) < limit:
        choice = next_job(accounts, door.let_in(waiting), now=now)
        # A job that is tried again runs alone: it may be what brought its companions down.
        if choice is None or (attempts and choice.head.attempt):
            break
        head = choice.head
        # Not so: another model's claim was faster, or it was cancelled since. Then it is no
        # head any more.
        if door.keep(head.tenant_id) and (
            attempt := _start(head.job_id, attempt=head.attempt, owner=owner, now=now)
        ):
            accounts = choice.accounts
            door.passed(head.tenant_id)
            attempt.charged_gpu_s, attempt.settled = choice.charged_gpu_s, False
            attempts.append(attempt)
            if head.attempt:
                break
        if len(attempts) < limit:
            waiting = heads(revision_id, now=now)
    if accounts is not queue.accounts:
        QueueState.objects.filter(pk=queue.pk).update(accounts=accounts, updated_at=now)
    return _written(attempts, owner=owner)


def take_for_trial(
    queue: QueueState, revision_id: UUID, *, owner: str, now: datetime
) -> list[UUID]:
    """One job, while no other runs; rather one that has not crashed the model before."""
    if Job.objects.filter(revision_id=revision_id, state=State.RUNNING).exists():
        return []
    door = _Door(queue.model_id, heads(revision_id, now=now), now=now)
    waiting = claimable(revision_id, now=now).filter(tenant_id__in=door.open_to).order_by("id")
    crashed = read(queue.breaker).crashed
    job = waiting.filter(attempt=0).exclude(fingerprint__in=crashed).first() or waiting.first()
    if job is None or not door.keep(job.tenant_id):
        return []
    attempt = _start(job.id, attempt=job.attempt, owner=owner, now=now)
    if attempt is None:
        return []
    pauses.began_trial(queue, revision_id, now=now)
    return _written([attempt], owner=owner)


class _Door:
    """Lets through, in one claim, what each tenant may start."""

    def __init__(self, model_id: UUID, waiting: Sequence[Head], *, now: datetime) -> None:
        # As they are now, not as they are kept: a limit that was lowered holds at once.
        quotas = read_quotas({head.tenant_id for head in waiting})
        self._rooms = rooms(quotas, model_id=model_id, now=now)
        self._locked: set[UUID] = set()

    @property
    def open_to(self) -> list[UUID]:
        return [tenant_id for tenant_id, room in self._rooms.items() if room.is_open]

    def let_in(self, waiting: Iterable[Head]) -> list[Head]:
        """The heads whose turn may come, each with its flow's weight. A tenant that came after
        the claim began has its turn in the next one."""
        return [
            head if room.weight == 1.0 else replace(head, weight=room.weight)
            for head in waiting
            if (room := self._rooms.get(head.tenant_id)) is not None and room.is_open
        ]

    def keep(self, tenant_id: UUID) -> bool:
        """Make sure of the place; without one, the tenant is let in no more."""
        if not self._rooms[tenant_id].over_all_models:
            return True
        if keeps_whole(tenant_id, wait=self._locked <= {tenant_id}):
            self._locked.add(tenant_id)
            return True
        self._rooms[tenant_id] = Room(places=0)
        return False

    def passed(self, tenant_id: UUID) -> None:
        self._rooms[tenant_id] = self._rooms[tenant_id].after_one()


def _start(job_id: UUID, *, attempt: int, owner: str, now: datetime) -> Attempt | None:
    """The attempt that begins, not written yet; None when the job is not there any more."""
    changed = Job.objects.filter(id=job_id, attempt=attempt, state=State.QUEUED).update(
        state=State.RUNNING,
        attempt=attempt + 1,
        owner=owner,
        lease_until=now + timedelta(seconds=settings.LEASE_S),
        started_at=now,
        not_before=None,
        progress=None,
    )
    if not changed:
        return None
    record(job_id, "running", at=now, attempt=attempt + 1)
    return Attempt(job_id=job_id, number=attempt + 1, worker=owner, started_at=now)


def _written(attempts: Sequence[Attempt], *, owner: str) -> list[UUID]:
    """Write the attempts down; together they hold what their worker holds of its card."""
    if attempts:
        share = share_of(owner) / len(attempts)
        for attempt in attempts:
            attempt.share = share
        Attempt.objects.bulk_create(attempts)
    return [attempt.job_id for attempt in attempts]
