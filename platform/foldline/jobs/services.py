"""The only writer of jobs. Each verb is one guarded UPDATE whose row count decides; `admission`,
`taking`, `sharing` and `endings` are its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, TypeVar, cast
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from foldline.clock import database_now
from foldline.errors import JobNotFound, QuotaExceeded, QuotaForbids, RepeatFailure, job_error
from foldline.jobs import news, pauses, tickets
from foldline.jobs.admission import Submission, Submitted, admit, counted, refuse_exceeded, replay
from foldline.jobs.bill import attempt_of, close_attempt, post_saved
from foldline.jobs.claims import ClaimedJob, Fence, Fenced, Usage, claimed
from foldline.jobs.endings import end_attempt, owe_ticket, promote, settle_followers, verdict_on
from foldline.jobs.events import record
from foldline.jobs.failing import note_success, refuse_repeated
from foldline.jobs.freed import place_freed
from foldline.jobs.limits import REQUESTS, WAITING, is_counted, spared
from foldline.jobs.models import Attempt, Job, JobArtifact
from foldline.jobs.retries import ANSWERS, CRASHES
from foldline.jobs.sharing import answer_followers, answer_from_run, hand_over, successor
from foldline.jobs.states import State, sources_of
from foldline.jobs.taking import take, take_for_trial
from foldline.jobs.warnings import combined
from foldline.tenants.ledger import Kind

Json = Mapping[str, Any]


def submit(submission: Submission) -> Submitted:
    """Accept a call: commit the job, then send its ticket.

    The answer stands when Redis is away: the sweeper sends the ticket later. Raises as `accept`.
    """
    accepted = accept(submission)
    if accepted.owes_ticket:
        transaction.on_commit(lambda: tickets.send(submission.queue))
    return accepted


def accept(submission: Submission) -> Submitted:
    """Commit the job; whoever calls this sends the ticket that is owed.

    A known idempotency key gives the job it named; an equal call's run or result is shared.
    Raises IdempotencyKeyReused, QuotaForbids, QuotaExceeded, RepeatFailure.
    """
    try:
        refuse_repeated(submission.tenant_id, submission.fingerprint)
        return _accepted(submission)
    except (QuotaForbids, QuotaExceeded, RepeatFailure) as refusal:
        # What was accepted once stays so, and an answer that is there is nobody's work.
        known = replay(submission) or (spared(refusal, attached=False) and _shared(submission))
        if not known:
            raise
        return known


def _accepted(submission: Submission) -> Submitted:
    while True:
        if accepted := admit(submission):
            return accepted
        try:
            if known := replay(submission) or _shared(submission):
                return known
        except IntegrityError:
            # Another request with the same key was faster by a moment: replay it.
            continue


def _shared(submission: Submission) -> Submitted | None:
    """What an equal call's run or result gives, where the tenant's limits have room for that."""
    limits = submission.limits
    if limits is None or not is_counted(limits):
        return answer_from_run(submission)
    with transaction.atomic():
        use = counted(submission, limits)
        refuse_exceeded(submission, use, names=(REQUESTS,))
        answered = answer_from_run(submission)
        if answered is not None and answered.coalesced_with is not None:
            refuse_exceeded(submission, use, names=(WAITING,))
    return answered


def claim(*, revision_id: UUID, owner: str, limit: int = 1) -> list[ClaimedJob]:
    """Take up to `limit` jobs of a revision, in the order of `scheduling.next_job`.

    Holds the model's queue for the moment of the choice, so that two workers never choose
    by the same state. Empty when nothing can be claimed or the model is paused.
    """
    with transaction.atomic():
        queue = pauses.locked_queue(revision_id)
        now = database_now()
        room = pauses.room_in(queue, revision_id, now=now)
        if room is None:
            taken = take(queue, revision_id, owner=owner, limit=limit, now=now)
        else:
            taken = take_for_trial(queue, revision_id, owner=owner, now=now) if room else []
        jobs = (
            Job.objects.filter(id__in=taken)
            .select_related("revision__model")
            .prefetch_related("jobartifact_set__artifact")
        )
        found = {job.id: job for job in jobs}
        return [claimed(found[job_id], now=now) for job_id in taken]


Verb = TypeVar("Verb", bound=Callable[..., Any])


def _led_on(verb: Verb) -> Verb:
    """A verb whose job gave its run to another one is carried out on that one."""

    @wraps(verb)
    def led(fence: Fence, **arguments: Any) -> Any:
        try:
            return verb(fence, **arguments)
        except Fenced:
            heir = successor(fence)
            if heir is None:
                raise
            return led(heir, **arguments)

    return cast("Verb", led)


@_led_on
def heartbeat(fence: Fence) -> bool:
    """Prolong the lease; True when the caller asked to cancel. Raises Fenced."""
    lease = database_now() + timedelta(seconds=settings.LEASE_S)
    if not _held(fence).update(lease_until=lease):
        raise Fenced
    return _held(fence).filter(cancel_requested=True).exists()


@_led_on
def progress(fence: Fence, *, fraction: float, stage: str = "", message: str = "") -> None:
    """Show how far the job is; `fraction` in 0..1. Raises Fenced."""
    now = database_now()
    shown = {
        "fraction": fraction,
        "stage": stage,
        "message": message,
        "updated_at": now.isoformat(),
    }
    if not _held(fence).update(progress=shown):
        raise Fenced
    news.tell(fence.job_id)


@_led_on
def checkpointed(fence: Fence, *, step: int) -> None:
    """Note that the attempt has saved its work up to `step`. Raises Fenced."""
    attempt = Attempt.objects.filter(job_id=fence.job_id, number=fence.attempt, ended_at=None)
    if not attempt.filter(worker=fence.owner).update(checkpoint_step=step):
        raise Fenced


@_led_on
def finish(
    fence: Fence,
    *,
    result: Json,
    artifacts: Sequence[tuple[str, UUID]] = (),
    warnings: Sequence[Json] = (),
    usage: Usage | None = None,
) -> None:
    """Record the result. The files behind `artifacts` (name, id) are durable by now.

    Also accepted when the lease was lost meanwhile and nobody has claimed the job since:
    the work is done and right. Raises Fenced.
    """
    with transaction.atomic():
        now = database_now()
        attempt = attempt_of(fence)
        told = combined(attempt.job.warnings, warnings)
        changed = Job.objects.filter(
            id=fence.job_id,
            attempt=fence.attempt,
            owner=fence.owner,
            state__in=sources_of(State.SUCCEEDED),
        ).update(
            state=State.SUCCEEDED,
            result=result,
            warnings=told,
            error=None,
            lease_until=None,
            finished_at=now,
        )
        if not changed:
            raise Fenced
        transaction.on_commit(lambda: pauses.answered(attempt.job.revision_id), robust=True)
        _link_outputs(fence.job_id, artifacts)
        spent = close_attempt(attempt, "succeeded", now=now, usage=usage)
        record(fence.job_id, State.SUCCEEDED, at=now)
        note_success(attempt.job)
        _free_place(attempt.job)
        answer_followers(attempt.job, result=result, warnings=told, gpu_seconds=spent, now=now)


@_led_on
def fail(fence: Fence, *, error: Json, usage: Usage | None = None) -> State:
    """Record how an attempt failed; gives `queued` when it is tried again, and `cancelled`
    when its caller no longer wants it. Raises Fenced.

    `error` has the shape of `foldline.errors.job_error`; its code decides about the retry.
    """
    with transaction.atomic():
        now = database_now()
        decision = verdict_on(fence, str(error["code"]))
        outcome = end_attempt(_held(fence), error, decision, now=now)
        if outcome is None:
            raise Fenced
        attempt = attempt_of(fence)
        transaction.on_commit(lambda: _learn(attempt.job, error), robust=True)
        close_attempt(attempt, str(error["code"]), now=now, usage=usage)
        record(fence.job_id, outcome, at=now, code=error["code"], attempt=fence.attempt)
        if outcome is State.QUEUED and not decision.retry_after_s:
            owe_ticket(fence.job_id)
        elif not settle_followers(attempt.job, outcome, error, decision, now=now):
            _free_place(attempt.job)
    return outcome


def _free_place(job: Job) -> None:
    place_freed(tenant_id=job.tenant_id, model_id=job.model_id)


def _learn(job: Job, error: Json) -> None:
    """What the failure of an attempt says of the model: it crashes, it answers, or nothing."""
    code = error["code"]
    if code in ANSWERS:
        pauses.answered(job.revision_id)
    # Among others nobody knows whose payload it was; each is tried again alone.
    elif code in CRASHES and "batch" not in error.get("details", {}):
        pauses.crashed(job.revision_id, fingerprint=job.fingerprint)


@_led_on
def stopped(fence: Fence, *, usage: Usage | None = None) -> None:
    """Record that a cancelled job's process is gone. Raises Fenced."""
    with transaction.atomic():
        now = database_now()
        if not _held(fence).update(
            state=State.CANCELLED, lease_until=None, finished_at=now, error=job_error("cancelled")
        ):
            raise Fenced
        attempt = attempt_of(fence)
        close_attempt(attempt, "cancelled", now=now, usage=usage)
        record(fence.job_id, State.CANCELLED, at=now)
        if not promote(fence.job_id, now=now):
            _free_place(attempt.job)


def cancel(*, tenant_id: UUID, job_id: UUID) -> State:
    """Ask for an end; idempotent. A waiting job ends at once, a running one once its worker
    has stopped it; a run that others are attached to goes on for them. Raises JobNotFound."""
    with transaction.atomic():
        now = database_now()
        job = Job.objects.select_for_update().filter(tenant_id=tenant_id, id=job_id).first()
        if job is None:
            raise JobNotFound
        if job.state == State.QUEUED:
            _cancel_waiting(job, now=now)
            return State.CANCELLED
        if job.state == State.RUNNING and not job.cancel_requested:
            if hand_over(job, now=now):
                return State.CANCELLED
            # Nobody joins it any more: an equal call is a run of its own.
            Job.objects.filter(id=job_id).update(cancel_requested=True, shared=False)
            record(job_id, "cancel_requested", at=now)
    return State(job.state)


def _cancel_waiting(job: Job, *, now: datetime) -> None:
    Job.objects.filter(id=job.id, state=State.QUEUED).update(
        state=State.CANCELLED, finished_at=now, error=job_error("cancelled")
    )
    record(job.id, State.CANCELLED, at=now)
    post_saved(Kind.CANCELLED, [job.id], now=now)
    promote(job.id, now=now)


def lose(fence: Fence, *, now: datetime) -> State | None:
    """Take a job whose lease has passed from its worker; None when the lease still holds."""
    error = job_error("worker_lost")
    with transaction.atomic():
        decision = verdict_on(fence, "worker_lost")
        late = _held(fence).filter(lease_until__lt=now)
        outcome = end_attempt(late, error, decision, now=now)
        if outcome is not None:
            attempt = attempt_of(fence)
            close_attempt(attempt, "worker_lost", now=now, usage=None)
            record(fence.job_id, outcome, at=now, code="worker_lost", attempt=fence.attempt)
            # The sweeper, which calls this, sends the tickets that are owed then.
            settle_followers(attempt.job, outcome, error, decision, now=now)
    return outcome


def expire(job_id: UUID, *, now: datetime) -> bool:
    """End a job that could not start in time, or not again before its deadline; False when
    it has started or ended."""
    late = job_error("deadline_exceeded", "The deadline passed while it waited to be tried again.")
    with transaction.atomic():
        due = Job.objects.filter(id=job_id, state=State.QUEUED, start_by__lte=now)
        ended = due.filter(attempt=0).update(
            state=State.EXPIRED, finished_at=now, error=job_error("expired")
        ) or due.filter(attempt__gt=0).update(state=State.EXPIRED, finished_at=now, error=late)
        if ended:
            record(job_id, State.EXPIRED, at=now)
            post_saved(Kind.EXPIRED, [job_id], now=now)
            promote(job_id, now=now)
    return bool(ended)


def _held(fence: Fence) -> QuerySet[Job]:
    return Job.objects.filter(
        id=fence.job_id, attempt=fence.attempt, owner=fence.owner, state=State.RUNNING
    )


def _link_outputs(job_id: UUID, artifacts: Sequence[tuple[str, UUID]]) -> None:
    JobArtifact.objects.bulk_create(
        JobArtifact(job_id=job_id, artifact_id=artifact, role=JobArtifact.Role.OUTPUT, name=name)
        for name, artifact in artifacts
    )
