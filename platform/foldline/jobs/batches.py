"""Many calls in one request: one transaction, one result for each, one key for the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError, OperationalError, transaction

from foldline.clock import database_now
from foldline.errors import (
    FoldlineError,
    IdempotencyKeyReused,
    JobNotFound,
    QuotaExceeded,
    problem,
)
from foldline.ids import uuid7
from foldline.jobs import selectors, services, tickets
from foldline.jobs.admission import Submission, Submitted
from foldline.jobs.bulk import admit_all, turn
from foldline.jobs.models import Batch
from foldline.jobs.turns import in_turn

MOST_JOBS = 100
TRIES = 3
DEADLOCK = "40P01"

Outcome = Submitted | FoldlineError


@dataclass(frozen=True, kw_only=True)
class BatchSubmission:
    """Calls of one tenant; in place of a call that needs no admission, what became of it."""

    tenant_id: UUID
    items: Sequence[Submission | Outcome]
    session: str = ""
    idempotency_key: str = ""
    payload_digest: str = ""
    request_id: str = ""
    """Kept in the problems of its items."""
    advise: Callable[[Submission, FoldlineError], None] = lambda _call, _refusal: None
    """Adds to a refusal what may help its caller."""


@dataclass(frozen=True, kw_only=True)
class SubmittedBatch:
    """The batch as it was accepted: what became of each item. With `replayed` none of its jobs
    is new, and `outcomes` is empty: they are read back."""

    batch: Batch
    outcomes: Sequence[Outcome] = ()
    replayed: bool = False


def replay(*, tenant_id: UUID, idempotency_key: str, payload_digest: str) -> SubmittedBatch | None:
    """The batch that this idempotency key named before; None when there is none.

    Raises IdempotencyKeyReused when the key came with another payload then.
    """
    if not idempotency_key:
        return None
    batch = Batch.objects.filter(tenant_id=tenant_id, idempotency_key=idempotency_key).first()
    if batch is None:
        return None
    if batch.payload_digest != payload_digest:
        raise IdempotencyKeyReused
    return SubmittedBatch(batch=batch, replayed=True)


def submit(call: BatchSubmission) -> SubmittedBatch:
    """Accept each call that can be: commit their jobs together, then send their tickets.

    A call is accepted or refused as if it came alone. When there is room for none of them,
    nothing is kept. Raises IdempotencyKeyReused, QuotaExceeded.
    """
    for left in reversed(range(TRIES)):
        try:
            with in_turn(), transaction.atomic():
                return _accepted(call)
        except IntegrityError:
            # Another request with the same key was faster.
            known = replay(
                tenant_id=call.tenant_id,
                idempotency_key=call.idempotency_key,
                payload_digest=call.payload_digest,
            )
            if known is None:
                raise
            return known
        except OperationalError as error:
            # Requests that use the same keys in different orders wait for each other; the
            # database ends one, of which nothing is left.
            if getattr(error.__cause__, "sqlstate", "") != DEADLOCK or not left:
                raise
    raise AssertionError("the last try returns or raises")


def _accepted(call: BatchSubmission) -> SubmittedBatch:
    calls = {uuid7(): item for item in call.items}
    # Written first: a second request with the same key waits here, and counts nothing.
    batch = _write(call, list(calls))
    admitted = admit_all(
        {job_id: item for job_id, item in calls.items() if isinstance(item, Submission)}
    )
    rest = {job_id: item for job_id, item in calls.items() if job_id not in admitted}
    became = {**admitted, **_one_by_one(rest, advise=call.advise)}
    outcomes = [became[job_id] for job_id in calls]
    if all(isinstance(outcome, QuotaExceeded) for outcome in outcomes):
        raise outcomes[0]  # type: ignore[misc]  # all are exceptions
    if len(admitted) < len(calls):
        _rewrite(batch, outcomes, request_id=call.request_id)
    owed = Counter(
        item.queue
        for item, outcome in zip(call.items, outcomes, strict=True)
        if isinstance(item, Submission) and isinstance(outcome, Submitted) and outcome.owes_ticket
    )
    if owed:
        transaction.on_commit(lambda: tickets.send_all(owed))
    return SubmittedBatch(batch=batch, outcomes=outcomes)


def _one_by_one(
    items: Mapping[UUID, Submission | Outcome],
    *,
    advise: Callable[[Submission, FoldlineError], None],
) -> dict[UUID, Outcome]:
    """What becomes of the calls that did not go plainly: an earlier job, an equal call's answer,
    a place after all, or a refusal."""
    became: dict[UUID, Outcome] = {
        place: item for place, item in items.items() if not isinstance(item, Submission)
    }
    calls = {place: item for place, item in items.items() if isinstance(item, Submission)}
    for place in sorted(calls, key=lambda place: turn(calls[place])):
        try:
            became[place] = services.accept(calls[place])
        except FoldlineError as refusal:
            advise(calls[place], refusal)
            became[place] = refusal
    return became


def _write(call: BatchSubmission, job_ids: Sequence[UUID]) -> Batch:
    """As it is when every item becomes a new job."""
    return Batch.objects.create(
        tenant_id=call.tenant_id,
        session=call.session,
        jobs=[job_id.hex for job_id in job_ids],
        idempotency_key=call.idempotency_key,
        payload_digest=call.payload_digest,
        created_at=database_now(),
    )


def _rewrite(batch: Batch, outcomes: Sequence[Outcome], *, request_id: str) -> None:
    """As it was when not."""
    batch.jobs = [each.job_id.hex if isinstance(each, Submitted) else None for each in outcomes]
    batch.refusals = {
        str(index): problem(each, request_id)
        for index, each in enumerate(outcomes)
        if isinstance(each, FoldlineError)
    }
    batch.save(update_fields=["jobs", "refusals"])


def cancel(*, tenant_id: UUID, batch_id: UUID) -> Batch:
    """Ask for an end of all its jobs; idempotent. Raises BatchNotFound.

    The last first: a job that is answered by an earlier one's run need not take that over.
    """
    batch = selectors.batch_of(tenant_id=tenant_id, batch_id=batch_id)
    for job_id in reversed(batch.jobs):
        if job_id is not None:
            with suppress(JobNotFound):  # it was removed, as old jobs are
                services.cancel(tenant_id=tenant_id, job_id=UUID(job_id))
    return batch
