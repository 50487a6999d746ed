"""What a tenant's quota lets workers start, and which tickets that owes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoCaptureOnCommitCallbacks

from foldline.catalog.models import Revision
from foldline.clock import database_now, day_of, midnight
from foldline.errors import QuotaForbids, job_error
from foldline.fleet.services import register
from foldline.jobs import services
from foldline.jobs.blocked import Blocked
from foldline.jobs.breaker import Breaker, Cause, written
from foldline.jobs.claims import ClaimedJob, Fence
from foldline.jobs.line import startable
from foldline.jobs.models import Attempt, Job, QueueState
from foldline.jobs.pauses import pause, resume
from foldline.jobs.rooms import past_use_kept
from foldline.jobs.selectors import blocked_reasons
from foldline.jobs.services import claim
from foldline.tenants.models import DailyUse, Tenant
from foldline.tenants.quotas import quotas_kept

MakeJob = Callable[..., UUID]
Limit = Callable[..., None]
QUEUE = "foldline.sleepy.r1"

pytestmark = pytest.mark.django_db


@pytest.fixture
def take(revision: Revision) -> Callable[..., list[ClaimedJob]]:
    return lambda limit=1, of=revision: claim(revision_id=of.id, owner="w1", limit=limit)


@pytest.fixture
def elsewhere(other_revision: Revision) -> dict[str, Any]:
    """What makes a job one of the other model."""
    return {"revision_id": other_revision.id, "model_id": other_revision.model_id}


Take = Callable[..., list[ClaimedJob]]


def running() -> int:
    return Job.objects.filter(state="running").count()


def reason(job_id: UUID) -> str | None:
    return blocked_reasons(list(Job.objects.filter(id=job_id))).get(job_id)


class TestRunningLimit:
    def test_no_more_run_at_once_and_others_go_on(
        self, make_job: MakeJob, limit: Limit, take: Take, other_tenant: Tenant
    ) -> None:
        limit(running=1)
        mine, waits = make_job(), make_job()
        theirs = make_job(tenant_id=other_tenant.id)
        assert {job.fence.job_id for _ in range(3) for job in take()} == {mine, theirs}
        assert reason(waits) == "running_limit"

    def test_the_companions_of_a_batch_count_one_by_one(
        self, make_job: MakeJob, limit: Limit, take: Take, revision: Revision
    ) -> None:
        for _ in range(5):
            make_job()
        limit(running=3)
        assert len(take(limit=5)) == 3
        limit(running=None)
        limit(model=revision.model, running=4)
        assert len(take(limit=5)) == 1

    def test_a_limit_on_a_model_leaves_others_alone(
        self,
        make_job: MakeJob,
        limit: Limit,
        take: Take,
        revision: Revision,
        other_revision: Revision,
        elsewhere: dict[str, Any],
    ) -> None:
        limit(model=revision.model, running=0)
        make_job()
        make_job(**elsewhere)
        assert (len(take()), len(take(of=other_revision))) == (0, 1)

    def test_a_limit_over_all_models_counts_those_of_others(
        self,
        make_job: MakeJob,
        limit: Limit,
        take: Take,
        other_revision: Revision,
        elsewhere: dict[str, Any],
    ) -> None:
        limit(running=1)
        make_job()
        make_job(**elsewhere)
        assert (len(take()), len(take(of=other_revision))) == (1, 0)

    def test_a_lowered_limit_stops_nothing_that_runs(
        self, make_job: MakeJob, limit: Limit, take: Take
    ) -> None:
        for _ in range(3):
            make_job()
        first, second = take(limit=2)
        limit(running=1)
        assert take() == []
        services.finish(first.fence, result={})
        assert take() == []
        services.finish(second.fence, result={})
        assert len(take()) == 1

    def test_a_trial_keeps_it(
        self,
        make_job: MakeJob,
        limit: Limit,
        take: Take,
        revision: Revision,
        other_tenant: Tenant,
    ) -> None:
        limit(running=0)
        make_job()
        theirs = make_job(tenant_id=other_tenant.id)
        now = database_now() - timedelta(hours=1)
        breaker = Breaker(revision=str(revision.id)).opened(Cause.CRASHES, "why", now=now)
        QueueState.objects.create(model=revision.model, breaker=written(breaker))
        assert [job.fence.job_id for job in take()] == [theirs]


class TestSwitchedOff:
    def test_what_runs_finishes_and_what_waits_stays_until_it_is_on_again(
        self, make_job: MakeJob, take: Take
    ) -> None:
        make_job()
        waits = make_job()
        (running,) = take()
        Tenant.objects.update(active=False)
        quotas_kept.clear()
        assert take() == []
        assert reason(waits) == "quota"
        assert services.heartbeat(running.fence) is False
        services.finish(running.fence, result={})
        with pytest.raises(QuotaForbids):
            make_job()
        Tenant.objects.update(active=True)
        assert [job.fence.job_id for job in take()] == [waits]


@pytest.mark.usefixtures("one_day")
class TestBudget:
    @pytest.fixture
    def used(self, owner_of_jobs: Tenant) -> Callable[[float], object]:
        today = day_of(database_now())
        return lambda gpu_seconds: DailyUse.objects.update_or_create(
            tenant=owner_of_jobs, model="sleepy", day=today, defaults={"gpu_seconds": gpu_seconds}
        )

    @pytest.mark.parametrize("budget", ["gpu_seconds_day", "gpu_seconds_month"])
    @pytest.mark.parametrize("of_model", [False, True])
    def test_a_tenant_that_has_used_its_budget_is_passed_over_until_it_has_a_new_one(
        self,
        make_job: MakeJob,
        limit: Limit,
        take: Take,
        used: Callable[[float], object],
        revision: Revision,
        other_tenant: Tenant,
        budget: str,
        *,
        of_model: bool,
    ) -> None:
        mine, theirs = make_job(), make_job(tenant_id=other_tenant.id)
        limit(model=revision.model if of_model else None, **{budget: 100})
        used(100)
        assert [job.fence.job_id for job in take(limit=2)] == [theirs]
        assert reason(mine) == "quota"
        long_ago = day_of(database_now()) - timedelta(days=40)
        DailyUse.objects.update(day=long_ago)
        assert [job.fence.job_id for job in take()] == [mine]

    def test_what_runs_counts_as_far_as_it_got(
        self, make_job: MakeJob, limit: Limit, take: Take
    ) -> None:
        for _ in range(3):
            make_job()
        limit(gpu_seconds_day=100)
        take()
        begun = database_now() - timedelta(seconds=99)
        Attempt.objects.update(started_at=begun, share=0.5)
        assert len(take()) == 1
        Attempt.objects.update(started_at=begun, share=1.0)
        assert take() == []


class TestFairAccounts:
    def test_a_quotas_weight_is_its_share_of_a_busy_model(
        self, make_job: MakeJob, limit: Limit, take: Take, other_tenant: Tenant
    ) -> None:
        limit(weight=3.0)
        for _ in range(12):
            make_job(estimate_gpu_s=10.0)
            make_job(estimate_gpu_s=10.0, tenant_id=other_tenant.id)
        taken = [job.tenant_id for _ in range(12) for job in take()]
        assert taken.count(other_tenant.id) == 3

    def test_who_used_much_lately_weighs_less(
        self, make_job: MakeJob, take: Take, owner_of_jobs: Tenant, other_tenant: Tenant
    ) -> None:
        yesterday = day_of(database_now()) - timedelta(days=1)
        frugal = [Tenant.objects.create(slug=f"lab-{n}", name="-") for n in range(9)]
        for tenant in frugal:
            DailyUse.objects.create(tenant=tenant, model="m", day=yesterday, gpu_seconds=10)
        DailyUse.objects.create(tenant=owner_of_jobs, model="m", day=yesterday, gpu_seconds=1000)
        past_use_kept.clear()
        for _ in range(10):
            make_job(estimate_gpu_s=10.0)
            make_job(estimate_gpu_s=10.0, tenant_id=other_tenant.id)
        taken = [job.tenant_id for _ in range(10) for job in take()]
        assert taken.count(owner_of_jobs.id) == 2

    def test_the_next_claim_replaces_what_was_charged_by_what_was_used(
        self, make_job: MakeJob, take: Take, owner_of_jobs: Tenant, other_tenant: Tenant
    ) -> None:
        for _ in range(6):
            make_job(estimate_gpu_s=1.0)
            make_job(estimate_gpu_s=1.0, tenant_id=other_tenant.id)
        (first,) = take()
        attempt = Attempt.objects.get()
        assert (attempt.charged_gpu_s, attempt.settled) == (1.0, False)
        assert first.tenant_id == owner_of_jobs.id
        Attempt.objects.update(started_at=database_now() - timedelta(seconds=3.5))
        services.finish(first.fence, result={})
        then = [job.tenant_id for _ in range(5) for job in take()]
        assert then == [other_tenant.id] * 4 + [owner_of_jobs.id], "it used what four others do"
        assert Attempt.objects.get(job_id=first.fence.job_id).settled

    def test_jobs_claimed_together_share_what_their_worker_holds(
        self, make_job: MakeJob, take: Take, revision: Revision
    ) -> None:
        register(name="w1", revision_id=revision.id, node="here", pid=1)
        revision.workers.update(share=0.5)
        make_job()
        make_job()
        take(limit=2)
        assert set(Attempt.objects.values_list("share", flat=True)) == {0.25}


@pytest.fixture
def committed(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks, sent: list[str]
) -> Callable[..., Any]:
    """The tickets that are sent once a block is committed."""

    @contextmanager
    def block() -> Iterator[list[str]]:
        sent.clear()
        with django_capture_on_commit_callbacks(execute=True):
            yield sent

    return block


Committed = Callable[..., Any]


def fail(fence: Fence, code: str) -> None:
    services.fail(fence, error=job_error(code))


class TestTickets:
    def test_jobs_that_must_wait_for_others_of_their_tenant_get_none(
        self, make_job: MakeJob, limit: Limit, committed: Committed
    ) -> None:
        limit(running=2)
        with committed() as sent:
            for _ in range(100):
                make_job()
        assert len(sent) == 2

    @pytest.mark.parametrize(
        "end",
        [
            lambda fence: services.finish(fence, result={}),
            lambda fence: fail(fence, "model_error"),
            lambda fence: fail(fence, "dependency_unavailable"),
            lambda fence: fail(fence, "host_oom"),
            lambda fence: services.stopped(fence),
        ],
        ids=["finish", "fail", "retry later", "retry", "stopped"],
    )
    def test_whoever_frees_a_place_sends_one(
        self,
        make_job: MakeJob,
        limit: Limit,
        take: Take,
        committed: Committed,
        end: Callable[[Fence], None],
    ) -> None:
        limit(running=1)
        for _ in range(3):
            make_job()
        (claimed,) = take()
        with committed() as sent:
            end(claimed.fence)
        assert sent == [QUEUE]

    def test_a_place_over_all_models_goes_to_the_oldest_job_of_any(
        self,
        make_job: MakeJob,
        limit: Limit,
        take: Take,
        committed: Committed,
        elsewhere: dict[str, Any],
    ) -> None:
        make_job()
        make_job(**elsewhere)
        make_job()
        limit(running=1)
        (claimed,) = take()
        with committed() as sent:
            services.finish(claimed.fence, result={})
        assert sent == ["foldline.other.r1"]

    def test_a_place_of_one_model_goes_to_none_of_another(
        self,
        make_job: MakeJob,
        limit: Limit,
        take: Take,
        committed: Committed,
        revision: Revision,
        elsewhere: dict[str, Any],
    ) -> None:
        limit(model=revision.model, running=1)
        make_job()
        make_job(**elsewhere)
        make_job()
        (claimed,) = take()
        with committed() as sent:
            services.finish(claimed.fence, result={})
        assert sent == [QUEUE]

    def test_a_paused_model_is_left_out(
        self,
        make_job: MakeJob,
        limit: Limit,
        take: Take,
        committed: Committed,
        other_revision: Revision,
        elsewhere: dict[str, Any],
    ) -> None:
        limit(running=1)
        make_job()
        make_job(**elsewhere)
        make_job()
        pause(other_revision.model_id, reason="maintenance")
        (claimed,) = take()
        with committed() as sent:
            services.finish(claimed.fence, result={})
        assert sent == [QUEUE]

    def test_without_such_a_limit_an_end_asks_nothing_and_sends_nothing(
        self, make_job: MakeJob, take: Take, committed: Committed
    ) -> None:
        make_job()
        make_job()
        (claimed,) = take()
        with committed() as sent, CaptureQueriesContext(connection) as queries:
            services.finish(claimed.fence, result={})
        assert sent == []
        assert not [q["sql"] for q in queries if "DISTINCT" in q["sql"]]

    def test_resuming_a_model_sends_them_only_within_limits(
        self, make_job: MakeJob, limit: Limit, sent: list[str], revision: Revision
    ) -> None:
        for _ in range(5):
            make_job()
        limit(running=2)
        pause(revision.model_id, reason="maintenance")
        sent.clear()
        resume(revision.model_id)
        assert sent == [QUEUE] * 2

    def test_a_job_that_is_back_in_line_gets_none_while_its_tenant_is_off(
        self, make_job: MakeJob, take: Take, committed: Committed
    ) -> None:
        make_job()
        (claimed,) = take()
        Tenant.objects.update(active=False)
        quotas_kept.clear()
        with committed() as sent:
            fail(claimed.fence, "host_oom")
        assert sent == []


class TestStartable:
    """What the sweeper sends tickets by."""

    @pytest.fixture
    def count(self, revision: Revision) -> Callable[[], int]:
        return lambda: startable(revision.id, model_id=revision.model_id, now=database_now())

    def test_it_follows_a_limit_that_is_lowered_and_raised(
        self, make_job: MakeJob, limit: Limit, take: Take, count: Callable[[], int]
    ) -> None:
        for _ in range(5):
            make_job()
        take()
        told = []
        for running in (None, 0, 1, 3, 100):
            limit(running=running)
            told.append(count())
        assert told == [4, 0, 0, 2, 4]

    def test_a_tenant_that_is_off_counts_when_it_is_on_again(
        self, make_job: MakeJob, other_tenant: Tenant, count: Callable[[], int]
    ) -> None:
        make_job()
        make_job(tenant_id=other_tenant.id)
        Tenant.objects.filter(id=other_tenant.id).update(active=False)
        assert count() == 1
        Tenant.objects.update(active=True)
        assert count() == 2

    def test_a_budget_is_there_again_after_midnight(
        self, make_job: MakeJob, limit: Limit, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        make_job()
        limit(gpu_seconds_day=10)
        now = database_now()
        DailyUse.objects.create(
            tenant=owner_of_jobs, model="sleepy", day=day_of(now), gpu_seconds=10
        )
        tomorrow = midnight(day_of(now) + timedelta(days=1))
        counted = [
            startable(revision.id, model_id=revision.model_id, now=moment)
            for moment in (now, tomorrow - timedelta(seconds=1), tomorrow)
        ]
        assert counted == [0, 0, 1]


def test_the_reasons_of_limits_are_told_in_the_order_they_have_to_go(
    make_job: MakeJob, limit: Limit, take: Take, model_ready: None
) -> None:
    job_id = make_job()
    limit(running=0)
    Job.objects.update(
        not_before=database_now() + timedelta(hours=1), error=job_error("dependency_unavailable")
    )
    Tenant.objects.update(active=False)
    quotas_kept.clear()
    told = [reason(job_id)]
    Tenant.objects.update(active=True)
    quotas_kept.clear()
    told.append(reason(job_id))
    Job.objects.update(error=job_error("storage"))
    told.append(reason(job_id))
    Job.objects.update(not_before=None)
    told.append(reason(job_id))
    limit(running=1)
    told.append(reason(job_id))
    assert told == ["quota", "dependency_down", "retry_backoff", "running_limit", None]


@pytest.fixture
def model_ready(revision: Revision) -> None:
    register(name="w1", revision_id=revision.id, node="here", pid=1)
    revision.workers.update(state="ready")


def test_a_job_that_later_ones_go_before_waits_for_its_fair_share(
    make_job: MakeJob, model_ready: None, revision: Revision
) -> None:
    jobs = list(Job.objects.filter(id=make_job()))
    overtaken = {job.id for job in jobs}
    assert blocked_reasons(jobs, overtaken=overtaken) == {}, "a worker is idle"
    revision.workers.update(state="busy")
    assert set(blocked_reasons(jobs, overtaken=overtaken).values()) == {Blocked.FAIR_SHARE}
    assert set(blocked_reasons(jobs).values()) == {Blocked.NO_CAPACITY}
