"""The end of a job that somebody asked to be told of is in the outbox, in its transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import transaction
from django.utils import timezone

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.claims import Fence
from foldline.jobs.models import Job, Outbox
from foldline.jobs.redrive import redrive
from foldline.jobs.services import claim
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]

pytestmark = pytest.mark.django_db


@pytest.fixture
def make_heard(make_job: MakeJob) -> MakeJob:
    return lambda **changes: make_job(**{"notify": True, **changes})


def claim_one(revision: Revision) -> Fence:
    (job,) = claim(revision_id=revision.id, owner="w1")
    return job.fence


def told() -> list[UUID]:
    return list(Outbox.objects.order_by("id").values_list("job_id", flat=True))


class TestEveryEnd:
    def test_succeeded(self, make_heard: MakeJob, revision: Revision) -> None:
        job = make_heard()
        services.finish(claim_one(revision), result={})
        assert told() == [job]
        row = Outbox.objects.get()
        assert (row.topic, row.delivered_at) == ("job.ended", None)

    def test_failed(self, make_heard: MakeJob, revision: Revision) -> None:
        job = make_heard()
        services.fail(claim_one(revision), error=job_error("invalid_input"))
        assert told() == [job]

    def test_a_job_that_is_tried_again_has_not_ended(
        self, make_heard: MakeJob, revision: Revision
    ) -> None:
        make_heard()
        services.fail(claim_one(revision), error=job_error("worker_lost"))
        assert told() == []

    def test_its_worker_was_lost_too_often(self, make_heard: MakeJob, revision: Revision) -> None:
        job = make_heard()
        for _ in range(3):
            Job.objects.update(not_before=None)
            fence = claim_one(revision)
            late = database_now() + timedelta(hours=1)
            services.lose(fence, now=late)
        assert Job.objects.get().state == "failed"
        assert told() == [job]

    def test_cancelled_while_it_waits(self, make_heard: MakeJob, owner_of_jobs: Tenant) -> None:
        job = make_heard()
        services.cancel(tenant_id=owner_of_jobs.id, job_id=job)
        services.cancel(tenant_id=owner_of_jobs.id, job_id=job)
        assert told() == [job]

    def test_cancelled_while_it_runs(
        self, make_heard: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        job = make_heard()
        fence = claim_one(revision)
        services.cancel(tenant_id=owner_of_jobs.id, job_id=job)
        assert told() == []
        services.stopped(fence)
        assert told() == [job]

    def test_expired(self, make_heard: MakeJob) -> None:
        job = make_heard(start_within_s=1.0)
        services.expire(job, now=timezone.now() + timedelta(seconds=2))
        assert told() == [job]


class TestSharedRuns:
    def test_each_of_those_attached_is_told_that_asked(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        same = {"fingerprint": "a" * 64}
        make_job(**same)
        heard = make_job(**same, notify=True)
        make_job(**same)
        services.finish(claim_one(revision), result={})
        assert told() == [heard]

    def test_a_failure_in_the_call_is_told_to_those_attached(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        same = {"fingerprint": "a" * 64, "notify": True}
        jobs = [make_job(**same) for _ in range(3)]
        services.fail(claim_one(revision), error=job_error("invalid_input"))
        assert told() == jobs

    def test_a_run_that_is_handed_over_ends_for_its_own_caller(
        self, make_job: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        same = {"fingerprint": "a" * 64, "notify": True}
        first, second = make_job(**same), make_job(**same)
        fence = claim_one(revision)
        services.cancel(tenant_id=owner_of_jobs.id, job_id=first)
        assert told() == [first]
        services.finish(fence, result={})
        assert told() == [first, second]

    def test_an_answer_from_the_cache_is_an_end(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        same = {"fingerprint": "a" * 64}
        make_job(**same)
        services.finish(claim_one(revision), result={})
        hit = make_job(**same, notify=True)
        assert told() == [hit]


def test_who_did_not_ask_is_told_nothing(make_job: MakeJob, revision: Revision) -> None:
    make_job()
    services.finish(claim_one(revision), result={})
    assert told() == []


def test_an_end_that_was_rolled_back_is_told_to_nobody(
    make_heard: MakeJob, revision: Revision
) -> None:
    make_heard()
    fence = claim_one(revision)

    with transaction.atomic():
        services.finish(fence, result={})
        assert told() != []
        transaction.set_rollback(True)
    assert told() == []
    assert Job.objects.get().state == "running"


def test_a_redriven_job_is_told_as_the_first_was(
    make_heard: MakeJob, revision: Revision, owner_of_jobs: Tenant
) -> None:
    job = make_heard(webhook=UUID(int=7))
    services.fail(claim_one(revision), error=job_error("model_error"))
    (made,) = redrive([job], by="admin").made.values()
    new = Job.objects.get(id=made)
    assert (new.notify, new.webhook) == (True, UUID(int=7))
