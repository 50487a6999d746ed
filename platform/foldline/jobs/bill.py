"""What each attempt cost, and what each job that needed none has saved.

A job's bill is the sum of its attempts. The ledger gets a line for each end of an attempt, in
the same transaction, and one for each job that was answered or ended without any.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import F

from foldline.fleet.accounts import settle_gone
from foldline.jobs.claims import Fence, Fenced, Usage
from foldline.jobs.models import Attempt, Job
from foldline.tenants.ledger import Kind, cost_of, lines_of_attempt, post
from foldline.tenants.models import LedgerLine

ANSWERED = frozenset({"succeeded", "handed_over"})
"""Outcomes whose seconds made an answer, or a part of one that another job goes on with."""
LOST = "worker_lost"

_OF_JOB = ("tenant_id", "session", "tenant__slug", "model__name", "model__price")


def attempt_of(fence: Fence) -> Attempt:
    """The attempt a fence stands for, with its job. Raises Fenced when there is none."""
    attempts = Attempt.objects.filter(job_id=fence.job_id, number=fence.attempt)
    of_job = ("warnings", "revision_id", "fingerprint", *_OF_JOB)
    attempt = attempts.select_related("job__tenant", "job__model").only(
        *("number", "worker", "started_at", "ended_at", "share", "gpu_seconds"),
        *(f"job__{name}" for name in of_job),
    )
    found = next(iter(attempt), None)  # one at most; `first` would sort them
    if found is None:
        raise Fenced
    return found


def close_attempt(
    attempt: Attempt, outcome: str, *, now: datetime, usage: Usage | None = None
) -> float:
    """Write down how an attempt ended and what it cost, and add it to the job's bill and to the
    ledger. Gives its GPU-seconds. The caller holds the job's row by having changed it."""
    usage = usage or Usage()
    gpu_seconds = (now - attempt.started_at).total_seconds() * attempt.share
    before = _end(
        attempt,
        ended_at=now,
        outcome=outcome,
        gpu_seconds=gpu_seconds,
        peak_memory_bytes=usage.peak_memory_bytes,
        peak_gpu_bytes=usage.peak_gpu_bytes,
    )
    # One that was lost and finished all the same is closed twice, and paid for once.
    more = gpu_seconds - (before or 0.0)
    Job.objects.filter(id=attempt.job_id).update(gpu_seconds=F("gpu_seconds") + more)
    taken_back = [] if before is None else _taken_back(attempt, now=now)
    post([*taken_back, _line_of(attempt, outcome, gpu_seconds, now=now)])
    if outcome == LOST or taken_back:
        settle_gone(name=attempt.worker, now=now)
    return gpu_seconds


def post_saved(
    kind: Kind, jobs: Collection[UUID], *, now: datetime, gpu_seconds: float | None = None
) -> None:
    """A line for each of these jobs that no worker ever had: `gpu_seconds` it would have held,
    or as many as were estimated, 0 when nothing was."""
    spared = Job.objects.filter(id__in=jobs, attempt=0).select_related("tenant", "model")
    lines = []
    for job in spared.only("estimate_gpu_s", *_OF_JOB):
        seconds = gpu_seconds if gpu_seconds is not None else job.estimate_gpu_s or 0.0
        lines.append(_line(job, kind, seconds, now=now))
    if lines:
        post(lines)


def seconds_of_answer(run: Job) -> float:
    """GPU-seconds of the attempt that made a run's answer."""
    answer = Attempt.objects.filter(job_id=run.id, number=run.attempt)
    return answer.values_list("gpu_seconds", flat=True).first() or 0.0


def _end(attempt: Attempt, *, ended_at: datetime, **told: object) -> float | None:
    """Close the row; gives what it was closed with before, None when it was open."""
    rows = Attempt.objects.filter(pk=attempt.pk)
    if not rows.filter(ended_at=attempt.ended_at).update(ended_at=ended_at, **told):
        # The sweeper took the job from its worker after this attempt was read.
        attempt.refresh_from_db(fields=["ended_at", "gpu_seconds"])
        rows.update(ended_at=ended_at, **told)
    return attempt.gpu_seconds if attempt.ended_at is not None else None


def _line_of(attempt: Attempt, outcome: str, gpu_seconds: float, *, now: datetime) -> LedgerLine:
    kind = Kind.COMPUTE if outcome in ANSWERED else Kind.WASTED
    line = _line(attempt.job, kind, gpu_seconds, now=now)
    line.attempt, line.worker = attempt.number, attempt.worker
    return line


def _line(job: Job, kind: Kind, gpu_seconds: float, *, now: datetime) -> LedgerLine:
    return LedgerLine(
        at=now,
        kind=kind,
        tenant_id=job.tenant_id,
        tenant=job.tenant.slug,
        model=job.model.name,
        session=job.session,
        job_id=job.id,
        gpu_seconds=gpu_seconds,
        cost=cost_of(gpu_seconds, price=job.model.price),
    )


def _taken_back(attempt: Attempt, *, now: datetime) -> list[LedgerLine]:
    """The opposite of what was posted of an attempt, at the price of then."""
    posted = lines_of_attempt(attempt.job_id, number=attempt.number, worker=attempt.worker)
    return [
        LedgerLine(
            at=now,
            kind=line.kind,
            gpu_seconds=-line.gpu_seconds,
            cost=-line.cost,
            **{name: getattr(line, name) for name in _KEPT},
        )
        for line in posted
    ]


_KEPT = ("tenant_id", "tenant", "model", "session", "job_id", "attempt", "worker")
