"""Equal calls share one run and its result.

Two calls are equal when tenant and fingerprint are. The first is the *run*; an equal one
that comes while it waits or computes is *attached* to it: a job of its own, never claimed,
without a ticket. One that comes later is answered from the *cache*, which is the finished
run itself. The unique index `one_run_per_call` decides which is which, also in a race.

A call without a seed of a model whose `seed_default` is random has drawn its seed by now,
so no other call is equal to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from foldline.clock import database_now
from foldline.errors import job_error
from foldline.ids import uuid7
from foldline.jobs import news
from foldline.jobs.admission import Submission, Submitted, link_inputs, submitted, times_of
from foldline.jobs.bill import attempt_of, close_attempt, post_saved, seconds_of_answer
from foldline.jobs.claims import Fence
from foldline.jobs.events import append, record
from foldline.jobs.models import Attempt, Job, JobArtifact
from foldline.jobs.states import State
from foldline.jobs.warnings import combined
from foldline.tenants.ledger import Kind

Json = Mapping[str, Any]


def answer_from_run(submission: Submission) -> Submitted | None:
    """Attach the call to the run of an equal one, or answer it from its result.

    None when there is no such run any more: then the call can be a run of its own.
    """
    with transaction.atomic():
        run = _runs_like(submission).select_for_update().first()
        if run is None:
            return None
        now = database_now()
        if run.state == State.SUCCEEDED:
            return _from_cache(submission, run, now=now)
        if _may_be_joined(run, now=now):
            return _attached(submission, run, now=now)
        # Nobody waits for a run that may never end: it goes on, but for its own caller only.
        Job.objects.filter(id=run.id).update(shared=False)
    return None


def answer_followers(
    run: Job, *, result: Json, warnings: Sequence[Json], gpu_seconds: float, now: datetime
) -> None:
    """Give the result of a run that has just succeeded, in `gpu_seconds`, to the jobs attached
    to it."""
    answered = _locked_followers(run.id)
    if not answered:
        return
    _followers(run.id).update(
        state=State.SUCCEEDED, result=result, warnings=combined([], warnings), finished_at=now
    )
    outputs = list(JobArtifact.objects.filter(job_id=run.id, role=JobArtifact.Role.OUTPUT))
    for job in answered:
        if job.warnings:  # about how this one was called
            Job.objects.filter(id=job.id).update(warnings=combined(job.warnings, warnings))
        _link_outputs(job.id, outputs)
        record(job.id, State.SUCCEEDED, at=now, coalesced_with=str(run.id))
    post_saved(Kind.COALESCED, [job.id for job in answered], now=now, gpu_seconds=gpu_seconds)


def fail_followers(run_id: UUID, *, error: Json, now: datetime) -> None:
    """End the jobs attached to a run whose failure would be theirs, too."""
    failed = _locked_followers(run_id)
    _followers(run_id).update(state=State.FAILED, error=error, finished_at=now)
    for job in failed:
        record(job.id, State.FAILED, at=now, code=error["code"], coalesced_with=str(run_id))


def promote_follower(run_id: UUID, *, now: datetime) -> UUID | None:
    """Let the oldest job attached to a run that ended without an answer become the run."""
    heir = _followers(run_id).select_for_update().order_by("id").first()
    if heir is None:
        return None
    Job.objects.filter(id=heir.id).update(
        attached_to=None,
        shared=not _runs_like(heir).exists(),
        estimate_gpu_s=Job.objects.filter(id=run_id).values("estimate_gpu_s"),
    )
    _followers(run_id).update(attached_to=heir.id)
    record(heir.id, "promoted", at=now, instead_of=str(run_id))
    return heir.id


def hand_over(run: Job, *, now: datetime) -> bool:
    """Cancel a running job and give its run, without a restart, to the oldest one attached.

    The worker keeps the fence it has: `successor` leads its writes to the heir. False when
    nobody is attached, or the run is no longer running.
    """
    heir = _followers(run.id).select_for_update().order_by("id").first()
    if heir is None:
        return False
    fence = Fence(job_id=run.id, attempt=run.attempt, owner=run.owner)
    left = Job.objects.filter(
        id=run.id, state=State.RUNNING, attempt=run.attempt, owner=run.owner
    ).update(
        state=State.CANCELLED,
        attached_to=heir.id,
        lease_until=None,
        finished_at=now,
        error=job_error("cancelled"),
    )
    if not left:
        return False
    attempt = attempt_of(fence)
    close_attempt(attempt, "handed_over", now=now)
    Job.objects.filter(id=heir.id).update(
        state=State.RUNNING,
        attempt=run.attempt,
        owner=run.owner,
        lease_until=run.lease_until,
        started_at=now,
        progress=run.progress,
        attached_to=None,
        shared=not _runs_like(heir).exists(),
    )
    Attempt.objects.create(
        job_id=heir.id,
        number=run.attempt,
        worker=run.owner,
        share=attempt.share,
        started_at=now,
        # The account was charged for the run as a whole; of this part it is corrected by all.
        charged_gpu_s=0.0,
        settled=False,
    )
    _followers(run.id).update(attached_to=heir.id)
    record(run.id, State.CANCELLED, at=now, handed_to=str(heir.id))
    record(heir.id, State.RUNNING, at=now, attempt=run.attempt, taken_from=str(run.id))
    return True


def successor(fence: Fence) -> Fence | None:
    """The fence of the job that took over the run, when that is why a fence holds no row."""
    heir = Job.objects.filter(
        id=fence.job_id, attempt=fence.attempt, owner=fence.owner, state=State.CANCELLED
    ).values_list("attached_to_id", flat=True)
    job_id = heir.first()
    if job_id is None:
        return None
    return Fence(job_id=job_id, attempt=fence.attempt, owner=fence.owner)


def _followers(run_id: UUID) -> QuerySet[Job]:
    return Job.objects.filter(attached_to=run_id, state=State.QUEUED)


def _locked_followers(run_id: UUID) -> list[Job]:
    """Locked, because one that is being cancelled at this moment must not be told another end."""
    return list(_followers(run_id).select_for_update().order_by("id").only("id", "warnings"))


def runs_of_call(*, tenant_id: UUID, fingerprint: str) -> QuerySet[Job]:
    """The run or result that equal calls share; one at most (`one_run_per_call`)."""
    return Job.objects.filter(
        tenant_id=tenant_id,
        fingerprint=fingerprint,
        shared=True,
        state__in=[State.QUEUED, State.RUNNING, State.SUCCEEDED],
    )


def _runs_like(call: Submission | Job) -> QuerySet[Job]:
    return runs_of_call(tenant_id=call.tenant_id, fingerprint=call.fingerprint)


def _may_be_joined(run: Job, *, now: datetime) -> bool:
    """A place in the line or a live lease, and a caller who still wants the answer."""
    if run.cancel_requested:
        return False
    return run.state == State.QUEUED or (run.lease_until is not None and run.lease_until > now)


def _from_cache(submission: Submission, run: Job, *, now: datetime) -> Submitted:
    job = _new_job(
        submission,
        now=now,
        state=State.SUCCEEDED,
        cache_of=run,
        result=run.result,
        warnings=combined(submission.warnings, run.warnings),
        finished_at=now,
    )
    _link_outputs(job.id, JobArtifact.objects.filter(job_id=run.id, role=JobArtifact.Role.OUTPUT))
    append(job.id, State.SUCCEEDED, at=now, cache_of=str(run.id))
    post_saved(Kind.CACHE, [job.id], now=now, gpu_seconds=seconds_of_answer(run))
    return submitted(job)


def _attached(submission: Submission, run: Job, *, now: datetime) -> Submitted:
    # Of its own it costs nothing; a budget counts the run once.
    job = _new_job(submission, now=now, state=State.QUEUED, attached_to=run, estimate_gpu_s=0.0)
    append(job.id, State.QUEUED, at=now, coalesced_with=str(run.id))
    _make_better(run, job)
    return submitted(job)


def _make_better(run: Job, job: Job) -> None:
    """The priority and the deadlines of a run are the best of those attached to it."""
    both = [run, job]
    interactive = any(each.priority == "interactive" for each in both)
    Job.objects.filter(id=run.id).update(
        priority="interactive" if interactive else "batch",
        start_by=_latest([each.start_by for each in both]),
        deadline=_latest([each.deadline for each in both]),
    )
    news.tell(run.id)


def _latest(times: Sequence[datetime | None]) -> datetime | None:
    """The latest of them; None, no bound, is later than any."""
    bounds = [time for time in times if time is not None]
    return max(bounds) if len(bounds) == len(times) else None


def _new_job(submission: Submission, *, now: datetime, state: State, **how: Any) -> Job:
    fields = {
        name: getattr(submission, name)
        for name in (
            *("tenant_id", "model_id", "revision_id", "inputs", "normalized_input"),
            *("seed", "seed_origin", "fingerprint", "payload_digest", "priority"),
            *("session", "idempotency_key", "traceparent", "input_size"),
            *("notify", "webhook"),
        )
    }
    job = Job.objects.create(
        id=uuid7(),
        **{**fields, "warnings": list(submission.warnings), **how},
        next_models=list(submission.next_models) or None,
        state=state,
        shared=False,
        **times_of(submission, now=now),
    )
    link_inputs(submission, job.id)
    return job


def _link_outputs(job_id: UUID, outputs: Sequence[JobArtifact] | QuerySet[JobArtifact]) -> None:
    JobArtifact.objects.bulk_create(
        JobArtifact(job_id=job_id, artifact_id=link.artifact_id, role=link.role, name=link.name)
        for link in outputs
    )
