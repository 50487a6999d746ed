"""What is kept, and for how long. Files go only when no job needs them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef

from foldline.artifacts import services as artifacts
from foldline.artifacts.models import Artifact
from foldline.fleet.retention import forget_workers
from foldline.jobs import failing
from foldline.jobs.models import Batch, Job, JobArtifact
from foldline.jobs.states import TERMINAL

A_TICK = 500


@dataclass(frozen=True, kw_only=True)
class Removed:
    """What one round took away."""

    keys: int = 0
    jobs: int = 0
    files: int = 0
    batches: int = 0
    workers: int = 0


def clean(*, now: datetime) -> Removed:
    """One bounded round. Jobs that are not finished are never touched.

    A job that others were answered from is kept as long as they are: it is their cache.
    """
    failing.forget(now=now)
    return Removed(
        keys=_forget_keys(before=now - timedelta(days=settings.KEEP_KEYS_DAYS)),
        jobs=_remove_jobs(before=now - timedelta(days=settings.KEEP_JOBS_DAYS)),
        batches=_remove_batches(before=now - timedelta(days=settings.KEEP_JOBS_DAYS)),
        workers=forget_workers(before=now - timedelta(days=settings.KEEP_JOBS_DAYS), limit=A_TICK),
        files=_remove_files(before=now - timedelta(days=settings.KEEP_FILES_DAYS)),
    )


def _forget_keys(*, before: datetime) -> int:
    """An idempotency key that is old enough may name a new job."""
    old = Job.objects.filter(created_at__lt=before, state__in=TERMINAL).exclude(idempotency_key="")
    batches = Batch.objects.filter(created_at__lt=before).exclude(idempotency_key="")
    return sum(
        rows.model._default_manager.filter(
            id__in=list(rows.values_list("id", flat=True)[:A_TICK])
        ).update(idempotency_key="")
        for rows in (old, batches)
    )


def _remove_jobs(*, before: datetime) -> int:
    heirs = Job.objects.filter(finished_at__gte=before)
    old = Job.objects.filter(
        ~Exists(heirs.filter(cache_of=OuterRef("pk"))),
        ~Exists(Job.objects.filter(attached_to=OuterRef("pk")).exclude(state__in=TERMINAL)),
        state__in=TERMINAL,
        finished_at__lt=before,
    )
    chosen = list(old.values_list("id", flat=True)[:A_TICK])
    Job.objects.filter(id__in=chosen).delete()
    return len(chosen)


_WITHOUT_JOBS = """
delete from jobs_batch where id in (
    select id from jobs_batch as old where created_at < %s and not exists (
        select 1 from {each} join jobs_job on jobs_job.id = {job}
    ) limit %s
)
"""
_MEMBERS = {
    "postgresql": ("jsonb_array_elements_text(old.jobs) as each(job)", "each.job::uuid"),
    "sqlite": ("json_each(old.jobs) as each", "each.value"),
}


def _remove_batches(*, before: datetime) -> int:
    """Batches none of whose jobs is left."""
    each, job = _MEMBERS[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(
            _WITHOUT_JOBS.format(each=each, job=job),
            [connection.ops.adapt_datetimefield_value(before), A_TICK],
        )
        return int(cursor.rowcount)


def _remove_files(*, before: datetime) -> int:
    """Files no job names, and that nobody has uploaded again lately."""
    needed = JobArtifact.objects.filter(artifact=OuterRef("pk"))
    unneeded = Artifact.objects.filter(~Exists(needed), used_at__lt=before)
    chosen = list(unneeded.values_list("id", flat=True)[:A_TICK])
    return sum(artifacts.remove(artifact_id, unused_since=before) for artifact_id in chosen)
