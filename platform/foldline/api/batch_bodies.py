"""What the API answers of a batch, just accepted or read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from uuid import UUID

from foldline.api.batches import Item
from foldline.api.bodies import Body, accepted_body
from foldline.api.shown import job_bodies
from foldline.api.submit import Call
from foldline.errors import JobNotFound, problem
from foldline.forecasts.reading import prospect_of_new
from foldline.jobs.admission import Submitted
from foldline.jobs.batches import SubmittedBatch
from foldline.jobs.marks import marks_of
from foldline.jobs.models import Batch
from foldline.jobs.selectors import jobs_by_id
from foldline.jobs.states import OPEN, State


def accepted_batch_body(
    accepted: SubmittedBatch, items: Sequence[Item], *, request_id: str
) -> Body:
    """Of a batch that was accepted a moment ago. Its new jobs are not read back."""
    now = datetime.now(UTC)
    new = {
        outcome.job_id: _new_body(item, outcome, now=now)
        for item, outcome in zip(items, accepted.outcomes, strict=True)
        if isinstance(item, Call) and isinstance(outcome, Submitted) and outcome.is_new
    }
    return _body(accepted.batch, new, request_id=request_id)


def batch_body(batch: Batch, *, request_id: str) -> Body:
    """Of a batch as it stands. A job that has been removed since, as old ones are, is an error."""
    return _body(batch, {}, request_id=request_id)


def batch_tag(batch: Batch) -> str:
    """The batch's `ETag`: it changes whenever one of its jobs does, or is removed."""
    marks = marks_of([UUID(job) for job in batch.jobs if job])
    told = sorted((job_id.hex, mark.tag) for job_id, mark in marks.items())
    return f'"{blake2b(repr(told).encode(), digest_size=8).hexdigest()}"'


def _new_body(call: Call, outcome: Submitted, *, now: datetime) -> Body:
    prospect, blocked = prospect_of_new(call.submission, outcome.ahead_in_flow, now=now)
    return accepted_body(
        call.model, call.submission, outcome, prospect=prospect, blocked=blocked, now=now
    )


def _body(batch: Batch, new: Mapping[UUID, Body], *, request_id: str) -> Body:
    ids = [UUID(job) if job else None for job in batch.jobs]
    known = {**new, **_read(batch, {job for job in ids if job} - new.keys())}
    jobs = [known.get(job) if job else None for job in ids]
    counts = Counter(job["state"] for job in jobs if job)
    pauses = [job["poll_after_s"] for job in jobs if job and job["state"] in OPEN]
    here = f"/v1/batches/{batch.id}"
    return {
        "id": batch.id,
        "session": batch.session,
        "state": "open" if pauses else "done",
        "counts": {
            **{state.value: counts[state] for state in State},
            "refused": len(batch.refusals),
        },
        "jobs": [
            {
                "index": index,
                "job": job,
                "error": None if job else _error(batch, index, request_id=request_id),
            }
            for index, job in enumerate(jobs)
        ],
        "created_at": batch.created_at,
        "poll_after_s": min(pauses, default=None),
        "urls": {"self": here, "cancel": f"{here}/cancel"},
    }


def _read(batch: Batch, job_ids: Collection[UUID]) -> Mapping[UUID, Body]:
    if not job_ids:
        return {}
    jobs = jobs_by_id(tenant_id=batch.tenant_id, job_ids=job_ids).values()
    return {body["id"]: body for body in job_bodies(list(jobs))}


def _error(batch: Batch, index: int, *, request_id: str) -> Body:
    refusal: Body | None = batch.refusals.get(str(index))
    return refusal or problem(JobNotFound(), request_id)
