"""What a tenant's quota lets it submit."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foldline.artifacts.models import Artifact
from foldline.catalog.models import Revision
from foldline.clock import database_now, day_of, midnight
from foldline.errors import IdempotencyKeyReused, QuotaExceeded, QuotaForbids
from foldline.ids import first_id, uuid7
from foldline.jobs import services
from foldline.jobs.admission import Submission, admit
from foldline.jobs.limits import stored_kept
from foldline.jobs.models import Event, Job
from foldline.jobs.services import claim
from foldline.scheduling.walk import COUNTED_AHEAD
from foldline.tenants.models import DailyUse, Tenant

MakeJob = Callable[..., UUID]
MakeSubmission = Callable[..., Submission]
Limit = Callable[..., None]

pytestmark = pytest.mark.django_db

EQUAL = {"fingerprint": "e" * 64}


@pytest.fixture
def used(owner_of_jobs: Tenant) -> Callable[..., None]:
    """Let GPU-seconds have been used, some days ago."""

    def use(gpu_seconds: float, *, days_ago: int = 0, model: str = "sleepy") -> None:
        day = day_of(database_now()) - timedelta(days=days_ago)
        DailyUse.objects.create(tenant=owner_of_jobs, model=model, day=day, gpu_seconds=gpu_seconds)

    return use


def refused(make_job: MakeJob, **changes: Any) -> dict[str, Any]:
    """What the refusal of one job more says of the limit; the job was not made."""
    before = Job.objects.count()
    with pytest.raises(QuotaExceeded) as told:
        make_job(**changes)
    assert Job.objects.count() == before
    assert told.value.retry_after_s is not None
    assert told.value.retry_after_s >= 1
    limit: dict[str, Any] = told.value.extra["limit"]
    return {**limit, "after": told.value.retry_after_s}


def forbidden(make_job: MakeJob, **changes: Any) -> tuple[Any, ...]:
    with pytest.raises(QuotaForbids) as told:
        make_job(**changes)
    limit = told.value.extra["limit"]
    return limit["name"], limit["model"], limit["used"], limit["allowed"]


class TestForbidden:
    def test_a_model_that_is_not_allowed(
        self, make_job: MakeJob, limit: Limit, revision: Revision
    ) -> None:
        limit(model=revision.model, allowed=False)
        assert forbidden(make_job) == ("allowed", "sleepy", None, None)

    def test_a_model_without_a_row_of_its_own_where_only_named_ones_are_allowed(
        self, make_job: MakeJob, limit: Limit, revision: Revision
    ) -> None:
        limit(allowed=False)
        assert forbidden(make_job)[0] == "allowed"
        limit(model=revision.model, allowed=True)
        make_job()

    def test_a_tenant_that_is_switched_off(self, make_job: MakeJob, owner_of_jobs: Tenant) -> None:
        Tenant.objects.update(active=False)
        assert forbidden(make_job)[0] == "active"

    def test_inputs_that_are_too_large(
        self, make_job: MakeJob, limit: Limit, revision: Revision
    ) -> None:
        limit(model=revision.model, input_bytes=20)
        make_job(inputs={"sequence": "EVQL"})
        longer = {"sequence": "EVQLV"}
        assert forbidden(make_job, inputs=longer) == ("input_bytes", "sleepy", 21, 20)

    def test_a_tenant_whose_files_are_full(
        self, make_job: MakeJob, limit: Limit, owner_of_jobs: Tenant
    ) -> None:
        limit(artifact_bytes=10)
        make_job()
        Artifact.objects.create(tenant=owner_of_jobs, sha256="0" * 64, size=10)
        stored_kept.clear()
        assert forbidden(make_job) == ("artifact_bytes", None, 10, 10)


class TestWaiting:
    def test_as_many_as_allowed_wait_and_no_more(self, make_job: MakeJob, limit: Limit) -> None:
        limit(waiting=2)
        make_job()
        make_job()
        told = refused(make_job)
        assert (told["name"], told["used"], told["allowed"]) == ("waiting", 2, 2)

    def test_a_job_that_runs_waits_no_more(
        self, make_job: MakeJob, limit: Limit, revision: Revision
    ) -> None:
        limit(waiting=1)
        make_job()
        claim(revision_id=revision.id, owner="w1")
        make_job()

    def test_the_limit_of_a_model_is_beside_that_of_the_tenant(
        self, make_job: MakeJob, limit: Limit, revision: Revision, other_revision: Revision
    ) -> None:
        elsewhere = {"revision_id": other_revision.id, "model_id": other_revision.model_id}
        limit(model=revision.model, waiting=1)
        make_job()
        assert refused(make_job)["model"] == "sleepy"
        make_job(**elsewhere)
        limit(waiting=2)
        assert refused(make_job, **elsewhere)["model"] is None

    def test_an_attached_call_waits_too(self, make_job: MakeJob, limit: Limit) -> None:
        limit(waiting=2)
        make_job(**EQUAL)
        make_job(**EQUAL)
        assert Job.objects.exclude(attached_to=None).count() == 1
        assert refused(make_job, **EQUAL)["name"] == "waiting"

    def test_an_answer_that_is_there_waits_for_nothing(
        self, make_job: MakeJob, limit: Limit, revision: Revision
    ) -> None:
        make_job(**EQUAL)
        (claimed,) = claim(revision_id=revision.id, owner="w1")
        services.finish(claimed.fence, result={"is": 1})
        limit(waiting=1, gpu_seconds_day=1)
        make_job(estimate_gpu_s=0.5)
        refused(make_job)
        assert Job.objects.get(id=make_job(**EQUAL)).result == {"is": 1}

    def test_a_known_key_is_answered_though_nothing_may_wait(
        self, make_job: MakeJob, limit: Limit
    ) -> None:
        first = make_job(idempotency_key="k")
        limit(waiting=0)
        assert make_job(idempotency_key="k") == first
        with pytest.raises(IdempotencyKeyReused):
            make_job(idempotency_key="k", payload_digest="x" * 64)

    def test_a_lowered_limit_loses_nothing(
        self, make_job: MakeJob, limit: Limit, revision: Revision
    ) -> None:
        made = [make_job() for _ in range(3)]
        limit(waiting=1)
        told = refused(make_job)
        assert (told["used"], told["allowed"]) == (3, 1)
        for _ in made:
            (claimed,) = claim(revision_id=revision.id, owner="w1")
            services.finish(claimed.fence, result={})
        assert set(Job.objects.values_list("state", flat=True)) == {"succeeded"}


class TestRequests:
    def let_pass(self, *, seconds: float) -> None:
        """Time passes: all jobs were made so much earlier."""
        for job in Job.objects.all():
            was = job.created_at - timedelta(seconds=seconds)
            made = UUID(int=first_id(was).int | uuid7().int & ((1 << 80) - 1))
            Event.objects.filter(job=job).delete()
            Job.objects.filter(id=job.id).update(id=made, created_at=was)

    def oldest_leaves_in_s(self) -> float:
        """When the minute that counts has passed it."""
        made = Job.objects.earliest("created_at").created_at
        return (made + timedelta(minutes=1) - database_now()).total_seconds()

    def test_as_many_as_allowed_in_a_minute(self, make_job: MakeJob, limit: Limit) -> None:
        limit(requests_per_minute=2)
        make_job()
        self.let_pass(seconds=20)
        make_job()
        asked = self.oldest_leaves_in_s()
        told = refused(make_job)
        assert (told["name"], told["used"], told["allowed"]) == ("requests_per_minute", 2, 2)
        assert self.oldest_leaves_in_s() <= told["after"] <= math.ceil(asked)
        self.let_pass(seconds=41)
        make_job()
        refused(make_job)

    def test_a_call_answered_from_the_cache_is_a_request(
        self, make_job: MakeJob, limit: Limit, revision: Revision
    ) -> None:
        make_job(**EQUAL)
        (claimed,) = claim(revision_id=revision.id, owner="w1")
        services.finish(claimed.fence, result={})
        limit(requests_per_minute=2)
        make_job(**EQUAL)
        assert refused(make_job, **EQUAL)["name"] == "requests_per_minute"

    def test_requests_of_one_model_are_counted_by_themselves(
        self, make_job: MakeJob, limit: Limit, revision: Revision, other_revision: Revision
    ) -> None:
        limit(model=revision.model, requests_per_minute=1)
        make_job(revision_id=other_revision.id, model_id=other_revision.model_id)
        make_job()
        assert refused(make_job)["model"] == "sleepy"

    def test_jobs_from_the_future_do_not_count(self, make_job: MakeJob, limit: Limit) -> None:
        """The clock was set back by an hour: what was made before it is later than now."""
        limit(requests_per_minute=1)
        make_job()
        self.let_pass(seconds=-3600)
        make_job()
        refused(make_job)

    def test_ids_ahead_of_their_time_do_not_evade_the_limit(
        self, make_job: MakeJob, limit: Limit
    ) -> None:
        """A process whose clock was set back goes on with ids as before."""
        limit(requests_per_minute=1)
        job_id = make_job()
        ahead = first_id(datetime.now(UTC) + timedelta(hours=1))
        Event.objects.all().delete()
        Job.objects.filter(id=job_id).update(id=ahead)
        refused(make_job)


@pytest.mark.usefixtures("one_day")
class TestBudget:
    def test_what_was_used_and_what_waits_count_with_the_new_job(
        self, make_job: MakeJob, limit: Limit, used: Callable[..., None]
    ) -> None:
        limit(gpu_seconds_day=100)
        used(60)
        make_job(estimate_gpu_s=30.0)
        told = refused(make_job, estimate_gpu_s=10.5)
        assert (told["name"], told["used"], told["allowed"]) == ("gpu_seconds_day", 90, 100)
        make_job(estimate_gpu_s=10.0)

    def test_a_running_job_counts_by_its_estimate(
        self, make_job: MakeJob, limit: Limit, revision: Revision
    ) -> None:
        limit(gpu_seconds_day=100)
        make_job(estimate_gpu_s=60.0)
        claim(revision_id=revision.id, owner="w1")
        assert refused(make_job, estimate_gpu_s=50.0)["used"] == 60

    def test_a_job_nobody_can_estimate_counts_as_the_fair_order_takes_it(
        self, make_job: MakeJob, limit: Limit
    ) -> None:
        limit(gpu_seconds_day=100)
        make_job()
        assert refused(make_job)["used"] == 60

    def test_an_equal_call_is_counted_once(self, make_job: MakeJob, limit: Limit) -> None:
        limit(gpu_seconds_day=100)
        make_job(estimate_gpu_s=60.0, **EQUAL)
        make_job(estimate_gpu_s=60.0, **EQUAL)
        make_job(estimate_gpu_s=40.0)

    def test_an_attached_call_that_becomes_the_run_is_counted(
        self, make_job: MakeJob, limit: Limit, owner_of_jobs: Tenant
    ) -> None:
        limit(gpu_seconds_day=100)
        run = make_job(estimate_gpu_s=60.0, **EQUAL)
        make_job(estimate_gpu_s=60.0, **EQUAL)
        services.cancel(tenant_id=owner_of_jobs.id, job_id=run)
        assert refused(make_job, estimate_gpu_s=50.0)["used"] == 60

    def test_another_day_counts_for_the_month_and_not_for_the_day(
        self, make_job: MakeJob, limit: Limit, used: Callable[..., None]
    ) -> None:
        now = database_now()
        used(60, days_ago=now.day - 1 if now.day > 1 else -1)
        used(1000, days_ago=40)
        limit(gpu_seconds_day=100, gpu_seconds_month=200)
        make_job(estimate_gpu_s=80.0)
        told = refused(make_job, estimate_gpu_s=21.0)
        assert (told["name"], told["used"]) == ("gpu_seconds_day", 80)
        limit(gpu_seconds_day=None)
        make_job(estimate_gpu_s=60.0)
        told = refused(make_job, estimate_gpu_s=1.0)
        assert (told["name"], told["used"]) == ("gpu_seconds_month", 200)

    def test_the_budget_of_a_model_is_its_own(
        self, make_job: MakeJob, limit: Limit, used: Callable[..., None], revision: Revision
    ) -> None:
        used(1000, model="other")
        used(70)
        limit(model=revision.model, gpu_seconds_day=100)
        make_job(estimate_gpu_s=20.0)
        told = refused(make_job, estimate_gpu_s=20.0)
        assert (told["model"], told["used"]) == ("sleepy", 90)

    def test_the_caller_is_told_to_come_after_midnight(
        self, make_job: MakeJob, limit: Limit
    ) -> None:
        limit(gpu_seconds_day=1)
        told = refused(make_job)
        tomorrow = midnight(day_of(database_now()) + timedelta(days=1))
        assert told["until"] == f"{tomorrow:%Y-%m-%dT%H:%M:%SZ}"
        assert abs(told["after"] - math.ceil((tomorrow - database_now()).total_seconds())) <= 2


def test_for_a_tenant_without_limits_nothing_is_counted(make_submission: MakeSubmission) -> None:
    call = make_submission()
    with CaptureQueriesContext(connection) as queries:
        admit(call)
    assert not [query["sql"] for query in queries if "requests" in query["sql"]]


def test_a_new_job_knows_how_many_of_its_flow_are_in_front(
    make_submission: MakeSubmission, other_tenant: Tenant, revision: Revision, limit: Limit
) -> None:
    def ahead(**changes: Any) -> int | None:
        return services.submit(make_submission(**changes)).ahead_in_flow

    assert [ahead() for _ in range(3)] == [0, 1, 2]
    assert (ahead(priority="batch"), ahead(tenant_id=other_tenant.id)) == (0, 0)
    claim(revision_id=revision.id, owner="w1")
    limit(waiting=100)
    assert ahead(**EQUAL) == 2
    assert ahead(**EQUAL) is None, "attached, it stands in no line"
    assert ahead() == 3


def test_a_submit_counts_only_so_many_in_front(make_submission: MakeSubmission) -> None:
    services.submit(make_submission())
    job = Job.objects.get()
    many = [{"id": uuid7(), "fingerprint": uuid7().hex * 2} for _ in range(COUNTED_AHEAD)]
    fields = {field.attname: getattr(job, field.attname) for field in Job._meta.concrete_fields}
    Job.objects.bulk_create(Job(**{**fields, **each}) for each in many)
    assert services.submit(make_submission()).ahead_in_flow == COUNTED_AHEAD


def test_what_a_forecast_goes_by_is_written_down(make_job: MakeJob) -> None:
    job = Job.objects.get(id=make_job(input_size=17, estimate_gpu_s=2.5))
    assert (job.input_size, job.estimate_gpu_s) == (17, 2.5)
