"""What others may know of jobs. Every question names the tenant that asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from foldline.clock import database_now
from foldline.errors import BatchNotFound, JobNotFound
from foldline.fleet.services import workers_by_state
from foldline.jobs.blocked import Blocked, Facts, blocked_reason
from foldline.jobs.breaker import read
from foldline.jobs.models import Batch, Job, QueueState
from foldline.jobs.rooms import rooms_of_jobs
from foldline.jobs.sharing import runs_of_call
from foldline.jobs.states import State


def job_of(*, tenant_id: UUID, job_id: UUID) -> Job:
    """The tenant's job, its revision and model loaded. Raises JobNotFound, also for another's."""
    # Every poll asks this, and most of its cost is Django's putting the query together: so there
    # is no order, and the run of the few that are attached to one is read when it is looked at.
    found = Job.objects.filter(tenant_id=tenant_id, id=job_id).select_related("revision__model")
    for job in found:
        return job
    raise JobNotFound


def batch_of(*, tenant_id: UUID, batch_id: UUID) -> Batch:
    """The tenant's batch. Raises BatchNotFound, also for another's."""
    batch = Batch.objects.filter(tenant_id=tenant_id, id=batch_id).first()
    if batch is None:
        raise BatchNotFound
    return batch


def jobs_by_id(*, tenant_id: UUID, job_ids: Collection[UUID]) -> Mapping[UUID, Job]:
    """Those of the jobs that are there, without what is large and not shown of them. Inputs are
    read: those of a failed job decide what else could serve the call."""
    return _jobs(tenant_id).defer(*_LARGE).in_bulk(list(job_ids))


_LARGE = [
    *("normalized_input", "result"),
    *(f"attached_to__{name}" for name in ("inputs", "normalized_input", "result")),
]


def require_job(*, tenant_id: UUID, job_id: UUID) -> None:
    """Raises JobNotFound unless the tenant has this job. Cheaper than reading it."""
    if not Job.objects.filter(tenant_id=tenant_id, id=job_id).exists():
        raise JobNotFound


def jobs_of(
    *,
    tenant_id: UUID,
    job_ids: Collection[UUID] | None = None,
    session: str | None = None,
    state: str | None = None,
    model: str | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> Sequence[Job]:
    """The tenant's jobs, newest first, those made before the job `before`; without what is large
    and not shown of them."""
    jobs = _jobs(tenant_id).defer(*_LARGE).order_by("-id")
    if job_ids is not None:
        jobs = jobs.filter(id__in=job_ids)
    if session is not None:
        jobs = jobs.filter(session=session)
    if state is not None:
        jobs = jobs.filter(state=state)
    if model is not None:
        jobs = jobs.filter(model__name=model)
    if before is not None:
        jobs = jobs.filter(id__lt=before)
    return list(jobs[:limit])


def blocked_reasons(
    jobs: Sequence[Job], *, overtaken: Collection[UUID] = ()
) -> Mapping[UUID, Blocked]:
    """Why those of the jobs that wait do not run yet; without an entry: nothing holds them.

    `overtaken`: those that others which came later go before. Two queries, however many jobs,
    and those of `rooms` for each model of a tenant with limits.
    """
    waiting = [job for job in jobs if job.state == State.QUEUED]
    if not waiting:
        return {}
    queues = QueueState.objects.in_bulk({job.model_id for job in waiting})
    workers = workers_by_state({job.revision_id for job in waiting})
    now = database_now()
    rooms = rooms_of_jobs(waiting, now=now)
    found = {}
    for job in waiting:
        facts = _facts(job, queues.get(job.model_id), workers[job.revision_id], now=now)
        held_by = rooms[job.tenant_id, job.model_id].held_by
        found[job.id] = blocked_reason(
            replace(
                facts,
                quota=held_by is Blocked.QUOTA,
                running_limit=held_by is Blocked.RUNNING_LIMIT,
                overtaken=job.id in overtaken,
            )
        )
    return {job_id: reason for job_id, reason in found.items() if reason is not None}


def _facts(
    job: Job, queue: QueueState | None, workers: Mapping[str, int], *, now: datetime
) -> Facts:
    idle, busy = workers.get("ready", 0), workers.get("busy", 0)
    breaker = read(queue.breaker if queue else None).about(str(job.revision_id))
    waits = job.not_before is not None and job.not_before > now
    return Facts(
        attached=job.attached_to_id is not None,
        paused=bool(queue and queue.paused),
        crash_looping=breaker.stops(loaded=idle + busy),
        waits_for_retry=waits,
        dependency_down=waits and (job.error or {}).get("code") == "dependency_unavailable",
        idle=idle,
        busy=busy,
        loading=workers.get("starting", 0) + workers.get("loading", 0),
    )


def run_of_call(*, tenant_id: UUID, fingerprint: str) -> Job | None:
    """The run or result that an equal call would share now."""
    runs = runs_of_call(tenant_id=tenant_id, fingerprint=fingerprint)
    return runs.exclude(cancel_requested=True).select_related(*_SHOWN_WITH).first()


def _jobs(tenant_id: UUID) -> QuerySet[Job]:
    return Job.objects.filter(tenant_id=tenant_id).select_related(*_SHOWN_WITH)


_SHOWN_WITH = ("revision__model", "attached_to")
