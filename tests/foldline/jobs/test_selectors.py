from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from foldline.errors import JobNotFound
from foldline.ids import uuid7
from foldline.jobs.selectors import job_of, jobs_of
from foldline.jobs.services import cancel
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]

pytestmark = pytest.mark.django_db


def test_anothers_job_is_as_missing_as_one_that_never_was(
    make_job: MakeJob, owner_of_jobs: Tenant
) -> None:
    other = Tenant.objects.create(slug="other", name="Other")
    job_id = make_job()
    assert job_of(tenant_id=owner_of_jobs.id, job_id=job_id).id == job_id
    for unknown in (job_id, uuid7()):
        with pytest.raises(JobNotFound):
            job_of(tenant_id=other.id, job_id=unknown)


def test_jobs_are_listed_newest_first_page_by_page(
    make_job: MakeJob, owner_of_jobs: Tenant
) -> None:
    made = [make_job() for _ in range(5)]
    first = jobs_of(tenant_id=owner_of_jobs.id, limit=3)
    rest = jobs_of(tenant_id=owner_of_jobs.id, limit=3, before=first[-1].id)
    assert [job.id for job in [*first, *rest]] == made[::-1]


def test_a_list_can_be_narrowed(make_job: MakeJob, owner_of_jobs: Tenant) -> None:
    mine = make_job(session="s1")
    ended = make_job()
    cancel(tenant_id=owner_of_jobs.id, job_id=ended)

    def listed(**narrow: Any) -> list[UUID]:
        return [job.id for job in jobs_of(tenant_id=owner_of_jobs.id, **narrow)]

    assert listed(session="s1") == [mine]
    assert listed(state="cancelled") == [ended]
    assert listed(model="sleepy") == [ended, mine]
    assert listed(model="other") == []
