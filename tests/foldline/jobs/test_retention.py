from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from foldline.artifacts import services as artifacts
from foldline.artifacts.models import Artifact
from foldline.artifacts.storage import path_of
from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.jobs import services
from foldline.jobs.models import Job, JobArtifact
from foldline.jobs.retention import Removed, clean
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]

pytestmark = pytest.mark.django_db

LATER = timedelta(days=40)


def finish_one(revision: Revision, *files: artifacts.Stored) -> None:
    (job,) = services.claim(revision_id=revision.id, owner="w1")
    services.finish(job.fence, result={}, artifacts=[(file.name, file.id) for file in files])


def upload(tenant: Tenant, content: bytes) -> artifacts.Stored:
    return artifacts.store_upload(tenant_id=tenant.id, chunks=[content], name="a.txt")


def test_an_old_ended_job_goes_with_its_events_and_then_its_files(
    make_job: MakeJob, revision: Revision, owner_of_jobs: Tenant
) -> None:
    make_job()
    file = upload(owner_of_jobs, b"made by the job")
    finish_one(revision, file)
    later = database_now() + LATER
    assert clean(now=later) == Removed(jobs=1, files=1)
    assert not Job.objects.exists()
    assert not Artifact.objects.exists()
    assert not path_of(owner_of_jobs.id, file.sha256).exists()


def test_a_job_that_has_not_ended_stays_however_old_it_is(
    make_job: MakeJob, revision: Revision
) -> None:
    make_job()
    make_job()
    services.claim(revision_id=revision.id, owner="w1")
    assert clean(now=database_now() + LATER) == Removed()


def test_a_file_stays_while_a_job_names_it(
    make_job: MakeJob, revision: Revision, owner_of_jobs: Tenant
) -> None:
    file = upload(owner_of_jobs, b"an input")
    make_job(artifacts=[("/structure", file.id)])
    assert clean(now=database_now() + LATER).files == 0
    assert path_of(owner_of_jobs.id, file.sha256).exists()


def test_a_file_stays_while_somebody_uses_it(owner_of_jobs: Tenant) -> None:
    file = upload(owner_of_jobs, b"x")
    Artifact.objects.update(used_at=database_now() - LATER)
    assert upload(owner_of_jobs, b"x").id == file.id
    assert clean(now=database_now()).files == 0
    assert clean(now=database_now() + LATER).files == 1


def test_the_same_bytes_of_another_tenant_are_another_file(owner_of_jobs: Tenant) -> None:
    other = Tenant.objects.create(slug="other", name="Other")
    mine, theirs = upload(owner_of_jobs, b"x"), upload(other, b"x")
    artifacts.remove(mine.id, unused_since=database_now() + LATER)
    assert path_of(other.id, theirs.sha256).read_bytes() == b"x"


def test_a_cached_answer_keeps_the_run_it_came_from(make_job: MakeJob, revision: Revision) -> None:
    run = make_job(fingerprint="a" * 64)
    finish_one(revision)
    hit = make_job(fingerprint="a" * 64)
    Job.objects.filter(id=run).update(finished_at=database_now() - LATER)
    assert clean(now=database_now()).jobs == 0
    Job.objects.filter(id=hit).update(finished_at=database_now() - LATER)
    assert clean(now=database_now()).jobs == 2


def test_an_old_idempotency_key_may_name_a_new_job(make_job: MakeJob, revision: Revision) -> None:
    first = make_job(idempotency_key="k")
    finish_one(revision)
    assert clean(now=database_now() + timedelta(days=8)) == Removed(keys=1)
    assert make_job(idempotency_key="k") != first


def test_a_file_that_cannot_be_removed_yet_loses_nothing(
    make_job: MakeJob, owner_of_jobs: Tenant
) -> None:
    file = upload(owner_of_jobs, b"x")
    make_job(artifacts=[("/structure", file.id)])
    assert not artifacts.remove(file.id, unused_since=database_now() + LATER)
    assert path_of(owner_of_jobs.id, file.sha256).exists()
    assert JobArtifact.objects.count() == 1
