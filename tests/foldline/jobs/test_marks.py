"""A job's mark changes when the job does, and is the same however it is read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db.models import F

from foldline.catalog.models import Revision
from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.marks import Mark, mark_of, marks_of
from foldline.jobs.models import Job
from foldline.tenants.models import Tenant
from tests.foldline.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db


def mark(job_id: UUID) -> Mark:
    """As it is read in bulk, and from the row: both the same."""
    in_bulk = marks_of([job_id])[job_id]
    assert in_bulk == mark_of(Job.objects.select_related("attached_to").get(id=job_id))
    return in_bulk


def test_it_changes_with_each_step_of_a_job_s_life(make_job: MakeJob, revision: Revision) -> None:
    job_id = make_job(deadline_s=600, start_within_s=60)
    seen = [mark(job_id)]
    for _ in range(2):
        (claimed,) = services.claim(revision_id=revision.id, owner="w")
        seen.append(mark(job_id))
        for fraction in (0.0, 0.5):
            services.progress(claimed.fence, fraction=fraction, message="é")
            seen.append(mark(job_id))
        services.fail(claimed.fence, error=job_error("worker_lost"))
        seen.append(mark(job_id))
    (claimed,) = services.claim(revision_id=revision.id, owner="w")
    services.finish(claimed.fence, result={"score": 1.5})
    seen.append(mark(job_id))
    assert len({each.tag for each in seen}) == len(seen)
    assert [each.ended for each in seen] == [False] * (len(seen) - 1) + [True]
    assert seen[-1].progress is None


def test_a_heartbeat_and_what_others_do_do_not_change_it(
    make_job: MakeJob, revision: Revision
) -> None:
    job_id = make_job()
    (claimed,) = services.claim(revision_id=revision.id, owner="w")
    before = mark(job_id)
    services.heartbeat(claimed.fence)
    services.checkpointed(claimed.fence, step=3)
    services.cancel(tenant_id=Tenant.objects.get().id, job_id=make_job())
    assert mark(job_id) == before


@pytest.mark.parametrize(
    "change",
    [
        {"cancel_requested": True},
        {"priority": "batch"},
        {"deadline": F("created_at") + timedelta(hours=1)},
        {"start_by": F("created_at") + timedelta(seconds=1)},
        {"gpu_seconds": 0.1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_it_changes_with_whatever_is_shown_of_a_job(
    make_job: MakeJob, change: dict[str, Any]
) -> None:
    job_id = make_job()
    before = mark(job_id)
    Job.objects.filter(id=job_id).update(**change)
    assert mark(job_id).tag != before.tag


def test_a_follower_s_has_the_progress_of_its_run(make_job: MakeJob, revision: Revision) -> None:
    run, follower = make_job(fingerprint="f" * 64), make_job(fingerprint="f" * 64)
    assert mark(follower).run_id == run
    (claimed,) = services.claim(revision_id=revision.id, owner="w")
    before = mark(follower)
    services.progress(claimed.fence, fraction=0.5)
    assert mark(follower).tag != before.tag
    assert mark(follower).progress == mark(run).progress


def test_many_are_one_query_and_those_that_are_gone_are_missing(
    make_job: MakeJob, django_assert_num_queries: Callable[..., Any]
) -> None:
    jobs = [make_job() for _ in range(5)]
    with django_assert_num_queries(1):
        found = marks_of([*jobs, uuid4()])
    assert found.keys() == set(jobs)
    assert len({each.tag for each in found.values()}) == 1  # alike, whichever job it is
