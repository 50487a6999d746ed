"""When nothing of a model is claimed: an admin paused it, or its breaker is open.

Every change locks the model's queue, as a claim does. Nothing here is called inside the
transaction of a job's change: a claim locks the queue first and a job then.
"""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import transaction

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.services import last_starts
from foldline.jobs import tickets
from foldline.jobs.breaker import FAILED_STARTS, Breaker, Cause, read, written
from foldline.jobs.faults import contained
from foldline.jobs.line import startable
from foldline.jobs.models import QueueState

log = logging.getLogger(__name__)

MOST_TICKETS = 200
REASON_CHARACTERS = 200


def locked_queue(revision_id: UUID) -> QueueState:
    """The queue of a revision's model, locked until the transaction ends."""
    queues = QueueState.objects.select_for_update(of=("self",))
    mine = queues.filter(model__revisions=revision_id)
    queue = mine.first()
    if queue is None:
        model_id = Revision.objects.values_list("model_id", flat=True).get(id=revision_id)
        QueueState.objects.get_or_create(model_id=model_id)
        queue = mine.get()
    return queue


def pause(model_id: UUID, *, reason: str) -> None:
    """Claim nothing of the model until it is resumed. Jobs are still accepted, running ones
    finish. A reason is needed: it is what callers and admins are shown."""
    if not reason.strip():
        raise ValueError("a pause needs a reason")
    QueueState.objects.get_or_create(model_id=model_id)
    with transaction.atomic():
        # Saved, not updated: the audit compares rows that are saved.
        queue = QueueState.objects.select_for_update().get(model_id=model_id)
        queue.paused = reason.strip()[:REASON_CHARACTERS]
        queue.save(update_fields=["paused", "updated_at"])
    log.warning("model paused", extra={"model": str(model_id), "reason": reason})


def resume(model_id: UUID) -> None:
    """Take jobs again. A breaker that is open makes its next trial at once."""
    QueueState.objects.get_or_create(model_id=model_id)
    with transaction.atomic():
        queue = QueueState.objects.select_for_update().get(model_id=model_id)
        breaker = read(queue.breaker)
        if breaker.is_open:
            queue.breaker = written(breaker.with_trial_now(database_now()))
        queue.paused = ""
        queue.save(update_fields=["paused", "breaker", "updated_at"])
    owe_tickets(model_id)


def room(revision_id: UUID, *, now: datetime) -> int | None:
    """How many jobs of a revision may be claimed: None is any number, 0 none, 1 a trial."""
    queue = QueueState.objects.filter(model__revisions=revision_id).first()
    return room_in(queue, revision_id, now=now) if queue else None


def room_in(queue: QueueState, revision_id: UUID, *, now: datetime) -> int | None:
    """The same for a queue that is read already."""
    if queue.paused:
        return 0
    breaker = read(queue.breaker).about(str(revision_id))
    # A worker that asks for work has started; only crashes keep jobs from it.
    if breaker.cause is not Cause.CRASHES:
        return None
    return 1 if breaker.trial_is_due(now) else 0


def crashed(revision_id: UUID, *, fingerprint: str) -> None:
    """The model's process died of a job."""
    with transaction.atomic():
        queue = locked_queue(revision_id)
        before = read(queue.breaker).about(str(revision_id))
        after = before.after_crash(fingerprint, now=database_now())
        _keep(queue, after)
    if after.is_open and not before.is_open:
        _tell(revision_id, after)


def answered(revision_id: UUID) -> None:
    """The model answered a job, be it with an error: it works."""
    queues = QueueState.objects.filter(model__revisions=revision_id, breaker__isnull=False)
    if not queues.exists():
        return
    with transaction.atomic():
        queue = locked_queue(revision_id)
        before = read(queue.breaker)
        if before.revision != str(revision_id) or before.cause is Cause.STARTS:
            return
        _keep(queue, Breaker())
    if before.is_open:
        log.warning("model answers again", extra={"revision": str(revision_id)})
        owe_tickets(queue.model_id)


def may_start(revision_id: UUID) -> bool:
    """Whether a worker may load the model now. After failed starts only one may try at a time,
    and asking takes the trial."""
    queue = QueueState.objects.filter(model__revisions=revision_id).first()
    if queue is None or not _starts_fail(queue, revision_id):
        return True
    with transaction.atomic():
        queue = locked_queue(revision_id)
        breaker, now = read(queue.breaker), database_now()
        if not _starts_fail(queue, revision_id):
            return True
        if not breaker.trial_is_due(now):
            return False
        _keep(queue, breaker.after_trial_began(now))
    return True


def may_serve(revision_id: UUID, *, now: datetime) -> int | None:
    """How many jobs are worth a worker: None is any number, 0 none, 1 a trial. Takes no trial."""
    queue = QueueState.objects.filter(model__revisions=revision_id).first()
    if queue is None:
        return None
    if not queue.paused and _starts_fail(queue, revision_id):
        return 1 if read(queue.breaker).trial_is_due(now) else 0
    return room_in(queue, revision_id, now=now)


def try_starts_again() -> None:
    """Somebody has just started everything anew: models that did not start get a trial now."""
    for queue in QueueState.objects.filter(breaker__isnull=False):
        with transaction.atomic():
            locked = QueueState.objects.select_for_update().get(pk=queue.pk)
            breaker = read(locked.breaker)
            if breaker.cause is Cause.STARTS:
                _keep(locked, breaker.with_trial_now(database_now()))


def watch_starts(*, now: datetime) -> None:
    """Open the breaker of a model whose last starts failed; close it after one succeeded."""
    for revision in Revision.objects.filter(state=Revision.State.LIVE):
        watch = partial(_watch_starts, revision, now=now)
        contained("sweep: starts", watch, otherwise=None, of=revision.id)


def _watch_starts(revision: Revision, *, now: datetime) -> None:
    starts = last_starts(revision.id, count=FAILED_STARTS)
    failing = len(starts) == FAILED_STARTS and all(starts)
    if not failing and not QueueState.objects.filter(
        model_id=revision.model_id, breaker__isnull=False
    ):
        return
    with transaction.atomic():
        queue = locked_queue(revision.id)
        before = read(queue.breaker).about(str(revision.id))
        after = _after_starts(before, starts, failing=failing, now=now)
        _keep(queue, after)
    if after.is_open and not before.is_open:
        _tell(revision.id, after)
    elif before.is_open and not after.is_open:
        owe_tickets(revision.model_id)


def _after_starts(before: Breaker, starts: list[str], *, failing: bool, now: datetime) -> Breaker:
    if failing and not before.is_open:
        reason = f"Its last {len(starts)} starts failed: {starts[0]}"
        return before.opened(Cause.STARTS, reason[:REASON_CHARACTERS], now=now)
    if before.cause is Cause.STARTS and starts and not starts[0]:
        return Breaker()
    return before


def owe_tickets(model_id: UUID) -> None:
    """Send tickets for the waiting jobs of a model that has just become claimable."""
    now = database_now()
    for revision in Revision.objects.exclude(state="draft").filter(model_id=model_id):
        bound = room(revision.id, now=now)
        waiting = startable(revision.id, model_id=model_id, now=now)
        count = min(MOST_TICKETS, waiting if bound is None else min(waiting, bound))
        if count:
            queue = tickets.queue_name(revision.model.name, number=revision.number)
            tickets.send(queue, count=count)


def _starts_fail(queue: QueueState, revision_id: UUID) -> bool:
    return read(queue.breaker).about(str(revision_id)).cause is Cause.STARTS


def began_trial(queue: QueueState, revision_id: UUID, *, now: datetime) -> None:
    """Note in a locked queue that a job was claimed as the trial."""
    _keep(queue, read(queue.breaker).about(str(revision_id)).after_trial_began(now))


def _keep(queue: QueueState, breaker: Breaker) -> None:
    kept = written(breaker)
    if kept != queue.breaker:
        queue.breaker = kept
        queue.save(update_fields=["breaker", "updated_at"])


def _tell(revision_id: UUID, breaker: Breaker) -> None:
    revision = Revision.objects.select_related("model").get(id=revision_id)
    log.error(
        "model is crash looping",
        extra={
            "model": revision.model.name,
            "revision": str(revision),
            "reason": breaker.reason,
            "next_trial": breaker.trial_at,
        },
    )
