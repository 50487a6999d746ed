from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.jobs.line import claimable, heads
from foldline.jobs.models import Job
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]

pytestmark = pytest.mark.django_db


def test_each_flow_shows_its_oldest_job_and_no_other(make_job: MakeJob, revision: Revision) -> None:
    other = Tenant.objects.create(slug="other", name="Other")
    firsts = {
        make_job(),
        make_job(priority="batch"),
        make_job(tenant_id=other.id),
    }
    for _ in range(5):
        make_job()
        make_job(tenant_id=other.id)
    assert {head.job_id for head in heads(revision.id, now=database_now())} == firsts


def test_heads_are_read_in_one_query_however_long_the_line(
    make_job: MakeJob, revision: Revision
) -> None:
    for _ in range(20):
        make_job()
    now = database_now()
    with CaptureQueriesContext(connection) as queries:
        heads(revision.id, now=now)
    assert len(queries) == 1


def test_only_jobs_a_worker_could_take_now_count(make_job: MakeJob, revision: Revision) -> None:
    leader = make_job()
    waits, late, attached, done = (make_job() for _ in range(4))
    now = database_now()
    Job.objects.filter(id=waits).update(not_before=now + timedelta(hours=1))
    Job.objects.filter(id=late).update(start_by=now - timedelta(seconds=1))
    Job.objects.filter(id=attached).update(attached_to=leader)
    Job.objects.filter(id=done).update(state="cancelled")
    assert [job.id for job in claimable(revision.id, now=now)] == [leader]
    assert [head.job_id for head in heads(revision.id, now=now)] == [leader]
