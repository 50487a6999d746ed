"""What a worker holds: a claim on one attempt of one job, and the fence it writes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from foldline.jobs.models import Job


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
class ClaimedJob:
    """All a worker needs to compute one attempt."""

    fence: Fence
    tenant_id: UUID
    model: str
    inputs: Mapping[str, Any]
    seed: int
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
    return ClaimedJob(
        fence=Fence(job_id=job.id, attempt=job.attempt, owner=job.owner),
        tenant_id=job.tenant_id,
        model=job.revision.model.name,
        inputs=job.normalized_input,
        seed=job.seed,
        seconds_left=limit,
        files=tuple(files),
    )
