"""Writing a new job down. The hot path: one statement on PostgreSQL, two on SQLite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from foldline.errors import IdempotencyKeyReused
from foldline.ids import uuid7
from foldline.jobs.models import Job, JobArtifact
from foldline.jobs.states import State
from foldline.tenants.quotas import Limits


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A validated call, ready to become a job."""

    tenant_id: UUID
    model_id: UUID
    revision_id: UUID
    queue: str
    inputs: Mapping[str, Any]
    normalized_input: Mapping[str, Any]
    seed: int
    seed_origin: str
    fingerprint: str
    payload_digest: str
    priority: str = "interactive"
    session: str = ""
    deadline_s: float | None = None
    start_within_s: float | None = None
    idempotency_key: str = ""
    traceparent: str = ""
    input_size: int = 0
    """Characters of the normalized input."""
    estimate_gpu_s: float | None = None
    limits: Limits | None = None
    """What must have room for it at the commit; None: nothing is limited."""
    shared: bool = True
    """Whether an equal call may be answered by this one's run, and this one by another's."""
    warnings: Sequence[Mapping[str, Any]] = ()
    artifacts: Sequence[tuple[str, UUID]] = ()
    """Input files: (JSON pointer into the inputs, artifact id)."""


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """The job as it was accepted; `replayed` when the idempotency key knew it already."""

    job_id: UUID
    state: State
    created_at: datetime
    start_by: datetime | None
    deadline: datetime | None
    coalesced_with: UUID | None = None
    cache_of: UUID | None = None
    replayed: bool = False
    ahead_in_flow: int | None = None
    """Waiting jobs of the same tenant and class in front of a new one."""


# A cursor and the columns that differ between calls: the ORM's create costs 2.5 times as
# much, and this is the one statement every caller waits for.
_COLUMNS = (
    *("id", "tenant_id", "model_id", "revision_id", "priority", "session"),
    *("inputs", "normalized_input", "seed", "seed_origin", "fingerprint", "warnings"),
    *("idempotency_key", "payload_digest", "traceparent", "shared"),
)
_CONSTANTS = {
    "state": "'queued'",
    "attempt": "0",
    "owner": "''",
    "cancel_requested": "false",
    "dead_letter": "false",
    "gpu_seconds": "0",
}
_TIMES = ("created_at", "start_by", "deadline")


def _insert_statement(*times: str) -> str:
    columns = [*_COLUMNS, *_TIMES, *_CONSTANTS]
    values = [*["%s"] * len(_COLUMNS), *times, *_CONSTANTS.values()]
    return (
        f"insert into jobs_job ({', '.join(columns)}) values ({', '.join(values)})"  # noqa: S608 - names of this module only
        " on conflict do nothing"
    )


_INSERT = _insert_statement("%s", "%s", "%s")
_EVENT = (
    "insert into jobs_event (job_id, sequence, kind, data, at) values (%s, 1, 'queued', '{}', %s)"
)
_NOW = "statement_timestamp()"
_DEADLINE = f"{_NOW} + make_interval(secs => %s)"
# least() ignores nulls: a job without start_within_s must still start before its deadline.
_POSTGRES_INSERT = f"""
with job as (
    {_insert_statement(_NOW, f"least({_DEADLINE}, {_DEADLINE})", _DEADLINE)}
    returning id, created_at, start_by, deadline
), event as (
    insert into jobs_event (job_id, sequence, kind, data, at)
    select id, 1, 'queued', '{{}}', created_at from job
)
select created_at, start_by, deadline from job
"""  # noqa: S608 - names of this module only


def admit(submission: Submission) -> Submitted | None:
    """Commit the job and its first event; times are the database's.

    None when its place is taken: by a job with the same idempotency key, or by the run of
    an equal call.
    """
    job_id = uuid7()
    insert = _insert_postgres if connection.vendor == "postgresql" else _insert_sqlite
    if submission.artifacts:
        with transaction.atomic():
            times = insert(submission, job_id)
            if times:
                link_inputs(submission, job_id)
    else:
        times = insert(submission, job_id)
    if times is None:
        return None
    created_at, start_by, deadline = times
    return Submitted(
        job_id=job_id,
        state=State.QUEUED,
        created_at=created_at,
        start_by=start_by,
        deadline=deadline,
    )


Times = tuple[datetime, datetime | None, datetime | None]
Value = str | int | bool | UUID | datetime | None


def _insert_postgres(submission: Submission, job_id: UUID) -> Times | None:
    seconds = [submission.start_within_s, submission.deadline_s, submission.deadline_s]
    with connection.cursor() as cursor:
        cursor.execute(_POSTGRES_INSERT, [*_values(submission, job_id), *seconds])
        return cursor.fetchone()  # type: ignore[no-any-return]  # the driver's rows are untyped


def _insert_sqlite(submission: Submission, job_id: UUID) -> Times | None:
    now = datetime.now(UTC)
    deadline = _after(now, submission.deadline_s)
    bounds = [t for t in (_after(now, submission.start_within_s), deadline) if t]
    times = (now, min(bounds, default=None), deadline)
    values: list[Value] = [*_values(submission, job_id), *times]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_INSERT, [_for_sqlite(value) for value in values])
        if not cursor.rowcount:
            return None
        cursor.execute(_EVENT, [job_id.hex, _for_sqlite(now)])
    return times


def _after(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def _for_sqlite(value: Value) -> Value:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


def _values(submission: Submission, job_id: UUID) -> list[Value]:
    """The row's values in the order of `_COLUMNS`."""
    inputs = json.dumps(submission.inputs)
    same = submission.inputs == submission.normalized_input
    return [
        job_id,
        submission.tenant_id,
        submission.model_id,
        submission.revision_id,
        submission.priority,
        submission.session,
        inputs,
        inputs if same else json.dumps(submission.normalized_input),
        submission.seed,
        submission.seed_origin,
        submission.fingerprint,
        json.dumps(list(submission.warnings)),
        submission.idempotency_key,
        submission.payload_digest,
        submission.traceparent,
        submission.shared,
    ]


def link_inputs(submission: Submission, job_id: UUID) -> None:
    """Write down which artifacts the inputs name."""
    JobArtifact.objects.bulk_create(
        JobArtifact(
            job_id=job_id, artifact_id=artifact_id, role=JobArtifact.Role.INPUT, name=pointer
        )
        for pointer, artifact_id in submission.artifacts
    )


def replay(submission: Submission) -> Submitted | None:
    """The job that this idempotency key named before; None when there is none.

    Raises IdempotencyKeyReused when the key came with another payload then.
    """
    if not submission.idempotency_key:
        return None
    job = Job.objects.filter(
        tenant_id=submission.tenant_id, idempotency_key=submission.idempotency_key
    ).first()
    if job is None:
        return None
    if job.payload_digest != submission.payload_digest:
        raise IdempotencyKeyReused
    return replace(submitted(job), replayed=True)


def submitted(job: Job) -> Submitted:
    """What is told of a job that was read back."""
    return Submitted(
        job_id=job.id,
        state=State(job.state),
        created_at=job.created_at,
        start_by=job.start_by,
        deadline=job.deadline,
        coalesced_with=job.attached_to_id,
        cache_of=job.cache_of_id,
    )
