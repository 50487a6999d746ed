"""What a worker holds: a claim on one attempt of one job, and the fence it writes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from foldline.jobs.models import Attempt, Job
from foldline.jobs.retries import OUT_OF_MEMORY


class Fenced(Exception):
    """You are no longer the one: the attempt was lost, ended or given to another worker.

    Not an error of the database. Stop computing and discard what you have.
    """


@dataclass(frozen=True, kw_only=True)
class Fence:
    """The three values every write of a worker carries."""

    job_id: UUID
    attempt: int
    owner: str


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """An artifact that an input field names."""

    pointer: str
    artifact_id: UUID
    sha256: str
    name: str


@dataclass(frozen=True, kw_only=True)
class RanOut:
    """How an earlier attempt ran out of memory; `together` with other jobs in one call."""

    code: str
    message: str
    together: bool


@dataclass(frozen=True, kw_only=True)
class ClaimedJob:
    """All a worker needs to compute one attempt."""

    fence: Fence
    tenant_id: UUID
    model: str
    inputs: Mapping[str, Any]
    seed: int
    fingerprint: str
    revision_digest: str
    ran_out: RanOut | None
    """An earlier attempt ran out of memory; this one is to need less."""
    saved: tuple[int, int] | None
    """Attempt and step of the last checkpoint of this job, on whichever machine it lies."""
    seconds_left: float
    """Until the job's deadline or the revision's run limit, whichever is sooner."""
    files: tuple[InputFile, ...]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What an attempt measured of itself."""

    peak_memory_bytes: int = 0
    peak_gpu_bytes: int = 0


def claimed(job: Job, *, now: datetime) -> ClaimedJob:
    """The claim on a job that has just become `running`."""
    limit = float(job.revision.run_timeout_s)
    if job.deadline is not None:
        limit = min(limit, (job.deadline - now).total_seconds())
    files = [
        InputFile(
            pointer=link.name,
            artifact_id=link.artifact_id,
            sha256=link.artifact.sha256,
            name=link.artifact.name,
        )
        for link in job.jobartifact_set.all()
        if link.role == "input"
    ]
    ran_out, saved = _history(job) if job.attempt > 1 else (None, None)
    return ClaimedJob(
        fence=Fence(job_id=job.id, attempt=job.attempt, owner=job.owner),
        tenant_id=job.tenant_id,
        model=job.revision.model.name,
        inputs=job.normalized_input,
        seed=job.seed,
        fingerprint=job.fingerprint,
        revision_digest=job.revision.digest,
        ran_out=ran_out,
        saved=saved,
        seconds_left=limit,
        files=tuple(files),
    )


def _history(job: Job) -> tuple[RanOut | None, tuple[int, int] | None]:
    """What the attempts before this one mean for it: `ran_out` and `saved`."""
    earlier = Attempt.objects.filter(job=job, number__lt=job.attempt).order_by("number")
    told = list(earlier.values_list("number", "outcome", "checkpoint_step"))
    steps = [(number, step) for number, _, step in told if step is not None]
    saved = steps[-1] if steps else None
    codes = [outcome for _, outcome, _ in told if outcome in OUT_OF_MEMORY]
    if not codes:
        return None, saved
    # The row keeps the last error only; an older one is known by its code.
    error = job.error if job.error and job.error["code"] == codes[-1] else {}
    ran_out = RanOut(
        code=codes[-1],
        message=error.get("detail", ""),
        together="batch" in error.get("details", {}),
    )
    return ran_out, saved
