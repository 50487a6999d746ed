"""A job's mark: a short text that changes whenever the job does. Its `ETag` over HTTP.

It stands for what is stored of a job and shown to its caller. What is forecast of it (place,
times, why it waits) is not part of it: that moves every other second while nothing happens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from uuid import UUID

import orjson

from foldline.jobs.models import Job
from foldline.jobs.rows import moment, name, rows_of
from foldline.jobs.states import TERMINAL, State

_ROWS = """
select job.id, job.state, job.attempt, job.cancel_requested, job.attached_to_id, job.priority,
    job.start_by, job.deadline, job.gpu_seconds,
    case when run.id is null then job.progress else run.progress end
from jobs_job job
left join jobs_job run on run.id = job.attached_to_id and job.state = 'queued'
where job.id {these}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """`tag`: the mark as it is spelled in an `ETag`, quotes included. `run_id`: the run that
    the job is attached to. `progress`: as shown, so of that run; None once the job has ended."""

    tag: str
    state: State
    run_id: UUID | None = None
    progress: Mapping[str, Any] | None = None

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL


def mark_of(job: Job) -> Mark:
    """The mark of a job whose run (`attached_to`) is loaded."""
    run = (job.attached_to if job.state == State.QUEUED else None) or job
    return _mark(
        State(job.state),
        *(job.attempt, job.cancel_requested, job.attached_to_id, job.priority),
        *(job.start_by, job.deadline, job.gpu_seconds, run.progress),
    )


def marks_of(jobs: Collection[UUID]) -> dict[UUID, Mark]:
    """The marks of those of the jobs that are there, as `mark_of` gives them. One query, a few
    microseconds a job."""
    return {job_id: _mark_of_row(row) for job_id, *row in rows_of(jobs, _ROWS)}


def _mark_of_row(row: Sequence[Any]) -> Mark:
    state, attempt, cancelling, run, priority, start_by, deadline, gpu_seconds, progress = row
    return _mark(
        State(state),
        *(attempt, cancelling, name(run) if run else None, priority),
        *(start_by and moment(start_by), deadline and moment(deadline), gpu_seconds),
        orjson.loads(progress) if progress else None,
    )


def _mark(state: State, *rest: Any) -> Mark:
    told = orjson.dumps([state, *rest], option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z)
    run_id, progress = rest[2], rest[-1]
    return Mark(
        tag=f'"{blake2b(told, digest_size=8).hexdigest()}"',
        state=state,
        run_id=run_id,
        progress=None if state in TERMINAL else progress,
    )
