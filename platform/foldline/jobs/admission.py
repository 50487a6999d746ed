"""Writing a new job down. The hot path: one statement on PostgreSQL, three on SQLite.

A tenant with limits is counted in the same transaction, while its quota is locked; on
PostgreSQL all of that is still one message to the server.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from foldline.errors import IdempotencyKeyReused
from foldline.ids import uuid7
from foldline.jobs import counting, statements
from foldline.jobs.limits import COUNTED, Use, exceeded, is_counted, owes_ticket, refuse_forbidden
from foldline.jobs.models import Job, JobArtifact
from foldline.jobs.states import State
from foldline.jobs.turns import in_turn
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
    model: str = ""
    """The model's name, as refusals tell it and budgets are kept by."""
    limits: Limits | None = None
    """What must have room for it at the commit; None: nothing is limited."""
    shared: bool = True
    """Whether an equal call may be answered by this one's run, and this one by another's."""
    warnings: Sequence[Mapping[str, Any]] = ()
    artifacts: Sequence[tuple[str, UUID]] = ()
    """Input files: (JSON pointer into the inputs, artifact id)."""
    next_models: Sequence[str] = ()
    """What its caller means to call with the result, as a hint to have it warm."""
    notify: bool = False
    """Whether its end is told outside, through the outbox."""
    webhook: UUID | None = None
    """The endpoint that its caller named for that."""


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
    """Waiting jobs of the same tenant and class in front of a new one; counted to 500."""
    owes_ticket: bool = True
    """False for a job that was there or is answered by another's run, and for one that must wait
    for other jobs of its tenant, whose end sends its ticket."""

    @property
    def is_new(self) -> bool:
        """Whether it is a job of its own, made just now, that waits in line."""
        return not (self.replayed or self.coalesced_with or self.cache_of)


class _Written(NamedTuple):
    """The row as it was committed; `use` is what was used just before, where that was counted."""

    created_at: datetime
    start_by: datetime | None
    deadline: datetime | None
    ahead: int
    use: Use | None = None


def admit(submission: Submission) -> Submitted | None:
    """Commit the job and its first event; times are the database's.

    None when its place is taken: by a job with the same idempotency key, or by the run of
    an equal call. Raises QuotaForbids, QuotaExceeded.
    """
    limits = submission.limits
    if limits is not None:
        refuse_forbidden(
            limits,
            tenant_id=submission.tenant_id,
            model=submission.model,
            inputs=submission.inputs,
        )
    job_id = uuid7()
    written = _write(submission, job_id)
    if written is None:
        return None
    return Submitted(
        job_id=job_id,
        state=State.QUEUED,
        created_at=written.created_at,
        start_by=written.start_by,
        deadline=written.deadline,
        ahead_in_flow=written.ahead,
        owes_ticket=limits is None or written.use is None or owes_ticket(limits, written.use),
    )


def _write(submission: Submission, job_id: UUID) -> _Written | None:
    insert = _insert_postgres if connection.vendor == "postgresql" else _insert_sqlite
    if not submission.artifacts:
        return insert(submission, job_id)
    with transaction.atomic():
        written = insert(submission, job_id)
        if written:
            link_inputs(submission, job_id)
    return written


Value = str | int | float | bool | UUID | datetime | None


def _insert_postgres(submission: Submission, job_id: UUID) -> _Written | None:
    values = {
        **values_of(submission, job_id),
        "start_within_s": submission.start_within_s,
        "deadline_s": submission.deadline_s,
    }
    with connection.cursor() as cursor:
        if submission.limits is not None and is_counted(submission.limits):
            return _insert_counted(cursor, submission, submission.limits, values)
        cursor.execute(statements.POSTGRES_INSERT, values)
        row = cursor.fetchone()
    return _Written(*row) if row else None


def _insert_counted(
    cursor: Any, submission: Submission, limits: Limits, values: dict[str, Value]
) -> _Written | None:
    """Lock, count and insert in one message: a lock must be a statement before the one that
    counts, and a round trip for each would cost as much as all the rest."""
    bounds = counting.bounds(limits, estimate_gpu_s=submission.estimate_gpu_s)
    cursor.execute(
        statements.counted_insert(counting.shape_of(limits)),
        {**values, **bounds, "model": submission.model},
    )
    cursor.nextset()
    now, created_at, start_by, deadline, ahead, *numbers = cursor.fetchone()
    use = counting.read_use(now, *numbers)
    if created_at is None:
        refuse_exceeded(submission, use)
        return None
    return _Written(created_at, start_by, deadline, ahead, use)


def _insert_sqlite(submission: Submission, job_id: UUID) -> _Written | None:
    with in_turn(), transaction.atomic(), connection.cursor() as cursor:
        use = None
        if submission.limits is not None and is_counted(submission.limits):
            use = counted(submission, submission.limits)
            refuse_exceeded(submission, use)
        # Not before here: the transaction has begun by waiting for the one writer before it.
        now = datetime.now(UTC)
        times = times_of(submission, now=now)
        values = values_for_sqlite(submission, job_id, times=times)
        cursor.execute(statements.AHEAD, values)
        (ahead,) = cursor.fetchone()
        cursor.execute(statements.INSERT, values)
        if not cursor.rowcount:
            return None
        cursor.execute(statements.EVENT, values)
    return _Written(now, times["start_by"], times["deadline"], ahead, use)


def counted(submission: Submission, limits: Limits, *, locked: bool = True) -> Use:
    """What its tenant uses of its limits now; `locked`: the quota, until the transaction ends."""
    return counting.use_of(
        limits,
        tenant_id=submission.tenant_id,
        model_id=submission.model_id,
        model=submission.model,
        locked=locked,
    )


def refuse_exceeded(submission: Submission, use: Use, *, names: Collection[str] = COUNTED) -> None:
    """Raises QuotaExceeded when the job does not fit into these limits."""
    if submission.limits is None:
        return
    limit = exceeded(submission.limits, use, estimate_gpu_s=submission.estimate_gpu_s, names=names)
    if limit is not None:
        raise counting.refused(
            limit,
            use,
            tenant_id=submission.tenant_id,
            model_id=submission.model_id,
            model=submission.model,
        )


def times_of(submission: Submission, *, now: datetime) -> dict[str, datetime | None]:
    """The times of a job that is accepted now, by column."""
    deadline = _after(now, submission.deadline_s)
    bounds = [t for t in (_after(now, submission.start_within_s), deadline) if t]
    return {"created_at": now, "start_by": min(bounds, default=None), "deadline": deadline}


def _after(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def values_for_sqlite(
    submission: Submission, job_id: UUID, *, times: Mapping[str, Value]
) -> dict[str, Value]:
    """The row's values and times, as SQLite keeps them."""
    named = {**values_of(submission, job_id), **times}
    return {name: _for_sqlite(value) for name, value in named.items()}


def _for_sqlite(value: Value) -> Value:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


def values_of(submission: Submission, job_id: UUID) -> dict[str, Value]:
    """The row's values by the names of `statements.COLUMNS`."""
    inputs = json.dumps(submission.inputs)
    same = submission.inputs == submission.normalized_input
    return {
        "id": job_id,
        "tenant_id": submission.tenant_id,
        "model_id": submission.model_id,
        "revision_id": submission.revision_id,
        "priority": submission.priority,
        "session": submission.session,
        "inputs": inputs,
        "normalized_input": inputs if same else json.dumps(submission.normalized_input),
        "seed": submission.seed,
        "seed_origin": submission.seed_origin,
        "fingerprint": submission.fingerprint,
        "warnings": json.dumps(list(submission.warnings)),
        "idempotency_key": submission.idempotency_key,
        "payload_digest": submission.payload_digest,
        "traceparent": submission.traceparent,
        "shared": submission.shared,
        "input_size": submission.input_size,
        "estimate_gpu_s": submission.estimate_gpu_s,
        "next_models": json.dumps(list(submission.next_models)) if submission.next_models else None,
        "notify": submission.notify,
        "webhook": submission.webhook,
    }


def link_inputs(submission: Submission, job_id: UUID) -> None:
    """Write down which artifacts the inputs name."""
    JobArtifact.objects.bulk_create(input_links(submission, job_id))


def input_links(submission: Submission, job_id: UUID) -> Iterator[JobArtifact]:
    """The links to the artifacts that the inputs name."""
    for pointer, artifact_id in submission.artifacts:
        yield JobArtifact(
            job_id=job_id, artifact_id=artifact_id, role=JobArtifact.Role.INPUT, name=pointer
        )


def replay(submission: Submission) -> Submitted | None:
    """The job that this idempotency key named before; None when there is none.

    Raises IdempotencyKeyReused when the key came with another payload then.
    """
    return replayed(
        tenant_id=submission.tenant_id,
        idempotency_key=submission.idempotency_key,
        payload_digest=submission.payload_digest,
    )


def replayed(*, tenant_id: UUID, idempotency_key: str, payload_digest: str) -> Submitted | None:
    """The same for a call that has come no further than its key."""
    if not idempotency_key:
        return None
    job = Job.objects.filter(tenant_id=tenant_id, idempotency_key=idempotency_key).first()
    if job is None:
        return None
    if job.payload_digest != payload_digest:
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
        owes_ticket=False,
    )
