"""What each attempt cost. A job's bill is the sum of its attempts."""

from __future__ import annotations

from datetime import datetime

from django.db.models import F

from foldline.jobs.claims import Fence, Fenced, Usage
from foldline.jobs.models import Attempt, Job


def attempt_of(fence: Fence) -> Attempt:
    """The attempt a fence stands for, with its job. Raises Fenced when there is none."""
    attempts = Attempt.objects.filter(job_id=fence.job_id, number=fence.attempt)
    of_job = [f"job__{name}" for name in ("warnings", "revision_id", "fingerprint")]
    attempt = attempts.select_related("job").only(
        "number", "started_at", "share", "gpu_seconds", *of_job
    )
    if (found := attempt.first()) is None:
        raise Fenced
    return found


def close_attempt(
    attempt: Attempt, outcome: str, *, now: datetime, usage: Usage | None = None
) -> None:
    """Write down how an attempt ended and what it cost, and add it to the job's bill."""
    usage = usage or Usage()
    gpu_seconds = (now - attempt.started_at).total_seconds() * attempt.share
    Attempt.objects.filter(pk=attempt.pk).update(
        ended_at=now,
        outcome=outcome,
        gpu_seconds=gpu_seconds,
        peak_memory_bytes=usage.peak_memory_bytes,
        peak_gpu_bytes=usage.peak_gpu_bytes,
    )
    # One that was lost and finished all the same is closed twice, and paid for once.
    more = gpu_seconds - attempt.gpu_seconds
    Job.objects.filter(id=attempt.job_id).update(gpu_seconds=F("gpu_seconds") + more)
