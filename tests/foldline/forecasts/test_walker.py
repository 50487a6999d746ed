from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from foldline.catalog.models import Revision
from foldline.catalog.services import retire
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.fleet.policies import STALE_S, Decided, record
from foldline.forecasts.models import Forecast
from foldline.forecasts.outlook import Outlook, outlook_of
from foldline.forecasts.prospects import Prospect
from foldline.forecasts.reading import estimate_gpu_s, prospect_of
from foldline.forecasts.walker import Walker
from foldline.jobs.models import Attempt, Job
from foldline.jobs.pauses import pause
from foldline.jobs.services import claim
from foldline.tenants.models import Quota, Tenant

MakeJob = Callable[..., UUID]
MakeWorker = Callable[..., Worker]
Past = Callable[..., None]

pytestmark = pytest.mark.django_db


def walked_at() -> datetime:
    return Forecast.objects.latest("as_of").as_of


def told(job_id: UUID) -> Prospect:
    """At the moment of the walk, however long ago that is on a slow machine."""
    return prospect_of(Job.objects.get(id=job_id), now=walked_at())


def start_s(job_id: UUID) -> float:
    start = told(job_id).start_p50
    assert start is not None
    return (start - walked_at()).total_seconds()


def seen(revision: Revision) -> Outlook:
    return outlook_of(Forecast.objects.get(revision=revision).document)


def test_a_line_of_one_tenant_is_in_the_order_it_came(
    make_job: MakeJob, make_worker: MakeWorker, past: Past, walker: Walker
) -> None:
    make_worker()
    past(10, seconds=10)
    walker.begin()
    made = [make_job() for _ in range(3)]
    walker.walk()
    assert [told(job).position for job in made] == [1, 2, 3]
    assert [told(job).ahead_gpu_s for job in made] == pytest.approx([0, 10, 20], abs=1)
    assert [start_s(job) for job in made] == pytest.approx([0, 10, 20], abs=5)


def test_it_is_the_order_of_the_claims(
    make_job: MakeJob, other_tenant: Tenant, revision: Revision, walker: Walker
) -> None:
    mine = [make_job(estimate_gpu_s=10.0) for _ in range(4)]
    theirs = [make_job(tenant_id=other_tenant.id, estimate_gpu_s=10.0) for _ in range(2)]
    walker.walk()
    placed = sorted([*mine, *theirs], key=lambda job: told(job).position or 0)
    claimed = [claim(revision_id=revision.id, owner="w")[0].fence.job_id for _ in placed]
    assert claimed == placed


def test_a_weight_counts_as_it_does_in_a_claim(
    make_job: MakeJob, tenant: Tenant, other_tenant: Tenant, walker: Walker
) -> None:
    Quota.objects.create(tenant=other_tenant, weight=10)
    mine = [make_job(estimate_gpu_s=10.0) for _ in range(3)]
    theirs = [make_job(tenant_id=other_tenant.id, estimate_gpu_s=10.0) for _ in range(3)]
    walker.walk()
    assert [told(job).position for job in (mine[0], *theirs, mine[1])] == [1, 2, 3, 4, 5]


def test_where_no_worker_is_the_first_job_waits_for_a_cold_start(
    make_job: MakeJob, make_worker: MakeWorker, walker: Walker
) -> None:
    for number in range(3):
        make_worker(f"w{number}", state="gone", load_seconds={"total": 40.0})
    job = make_job()
    walker.walk()
    expected = told(job)
    assert (expected.cold, expected.cold_p50_s) == (True, 40.0)
    assert start_s(job) == pytest.approx(40, abs=15)


def test_a_worker_that_loads_is_nearly_there(
    make_job: MakeJob, make_worker: MakeWorker, walker: Walker, revision: Revision
) -> None:
    for number in range(3):
        make_worker(f"w{number}", state="gone", load_seconds={"total": 40.0})
    now = database_now()
    make_worker("new", state="loading", load_seconds={}, started_at=now - timedelta(seconds=35))
    job = make_job()
    walker.walk()
    assert start_s(job) < 20
    assert seen(revision).blocked == "model_loading"


def test_what_a_worker_computes_now_is_waited_for(
    make_job: MakeJob, make_worker: MakeWorker, past: Past, revision: Revision
) -> None:
    make_worker(state="busy")
    past(10, seconds=100)
    running, waiting = make_job(), make_job()
    claim(revision_id=revision.id, owner="w1")
    begun = database_now() - timedelta(seconds=10)
    Job.objects.filter(id=running).update(started_at=begun)
    Attempt.objects.filter(job_id=running).update(started_at=begun)
    walked()
    assert start_s(waiting) == pytest.approx(90, abs=12)
    finish = told(running).finish_p50
    assert finish is not None
    assert (finish - walked_at()).total_seconds() == pytest.approx(90, abs=12)


def test_a_worker_that_leaves_takes_no_further_job(
    make_job: MakeJob, make_worker: MakeWorker, past: Past, revision: Revision, walker: Walker
) -> None:
    past(10, seconds=10)
    walker.begin()
    make_worker("w1", state="busy")
    make_job()
    assert claim(revision_id=revision.id, owner="w1")
    make_job()
    walker.walk()
    staying, _ = seen(revision).curves["interactive"].at(0.0)
    Worker.objects.filter(name="w1").update(state="draining")
    walker.walk()
    leaving, _ = seen(revision).curves["interactive"].at(0.0)
    assert staying < 15 < leaving  # when its job of 10 s has ended; a cold start of 20 s


def test_workers_that_were_ordered_are_expected(
    make_job: MakeJob, make_worker: MakeWorker, past: Past, revision: Revision, walker: Walker
) -> None:
    past(10, seconds=100)
    walker.begin()
    make_worker("w1", state="loading", load_seconds={})
    make_worker("w0", state="gone", load_seconds={"total": 20.0})
    for _ in range(3):
        make_job()
    walker.walk()
    alone = seen(revision)
    now = database_now()
    want = Decided(revision_id=revision.id, desired=3, actual=1, starts=2, tier="", zero_in_s=None,
                   reason="")  # fmt: skip
    record([want], now=now - timedelta(seconds=2 * STALE_S))
    walker.walk()
    assert last_of_three(seen(revision)) == pytest.approx(last_of_three(alone), rel=0.3)
    record([want], now=now)
    walker.walk()
    assert last_of_three(seen(revision)) < 60 < last_of_three(alone)


def last_of_three(outlook: Outlook) -> float:
    """When the last of three jobs of 100 s starts."""
    return outlook.curves["interactive"].at(200.0)[0]


def test_jobs_that_shared_a_call_keep_a_worker_for_their_part(
    make_job: MakeJob, make_worker: MakeWorker, past: Past, revision: Revision
) -> None:
    make_worker(share=0.5)
    past(10, seconds=40, share=0.125)  # four at a time on half a card
    job = make_job()
    walked()
    outlook = seen(revision)
    assert outlook.expected(0).work_s == pytest.approx(10)
    assert outlook.expected(0).run_p50_s == pytest.approx(40)
    assert estimate_gpu_s(revision.id, size=0) == pytest.approx(5)
    assert told(job).position == 1


def test_a_model_that_is_paused_has_places_and_no_times(
    make_job: MakeJob, make_worker: MakeWorker, revision: Revision, walker: Walker
) -> None:
    make_worker()
    job = make_job()
    pause(revision.model_id, reason="maintenance")
    walker.walk()
    expected = told(job)
    assert (expected.position, expected.start_p50, expected.finish_p90) == (1, None, None)
    assert seen(revision).blocked == "paused"


def test_a_job_over_its_tenants_budget_stands_in_nobodys_way(
    make_job: MakeJob, make_worker: MakeWorker, tenant: Tenant, other_tenant: Tenant, walker: Walker
) -> None:
    make_worker()
    mine, theirs = make_job(), make_job(tenant_id=other_tenant.id)
    tenant.active = False
    tenant.save()
    walker.walk()
    assert [told(job).position for job in (mine, theirs)] == [None, 1]
    assert told(mine).start_p50 is None


def test_a_job_of_others_that_goes_first_is_told_as_the_reason(
    make_job: MakeJob, other_tenant: Tenant, walker: Walker
) -> None:
    mine = [make_job(priority="batch", estimate_gpu_s=10.0) for _ in range(3)]
    walker.walk()
    make_job(tenant_id=other_tenant.id, estimate_gpu_s=10.0)
    walker.walk()
    assert [told(job).position for job in mine] == [1, 3, 4]
    assert [told(job).reason for job in mine] == [None, "fair_share", "fair_share"]


def test_when_a_worker_is_lost_the_wait_says_so_until_there_are_as_many_again(
    make_job: MakeJob, make_worker: MakeWorker, walker: Walker
) -> None:
    make_worker("w1")
    make_worker("w2")
    job = make_job()
    walker.walk()
    assert told(job).reason is None
    Worker.objects.filter(name="w2").update(state="gone")
    walker.walk()
    assert told(job).reason == "worker_lost"
    make_worker("w3")
    walker.walk()
    assert told(job).reason is None


def test_a_revision_that_was_retired_is_walked_while_jobs_wait(
    make_job: MakeJob, revision: Revision, walker: Walker
) -> None:
    job = make_job()
    retire(revision)
    walker.walk()
    assert told(job).position == 1
    Job.objects.update(state="cancelled")
    Forecast.objects.all().delete()
    walker.walk()
    assert not Forecast.objects.exists()


def test_a_job_that_waits_to_be_tried_again_is_in_no_line(
    make_job: MakeJob, make_worker: MakeWorker, walker: Walker
) -> None:
    make_worker()
    job, next_one = make_job(), make_job()
    Job.objects.filter(id=job).update(attempt=1, not_before=database_now() + timedelta(minutes=5))
    walker.walk()
    assert (told(job).position, told(job).start_p50) == (None, None)
    assert told(next_one).position == 1


def test_a_forecaster_that_starts_goes_on_where_the_last_one_stopped(
    make_job: MakeJob, other_tenant: Tenant
) -> None:
    jobs = [make_job(priority="batch", estimate_gpu_s=10.0) for _ in range(2)]
    walked()
    make_job(tenant_id=other_tenant.id, estimate_gpu_s=10.0)
    walked()
    assert (told(jobs[1]).position, told(jobs[1]).reason) == (3, "fair_share")
    walked()
    assert told(jobs[1]).reason == "fair_share"


def test_those_who_keep_coming_first_are_expected_to_go_on(
    make_job: MakeJob, make_worker: MakeWorker, past: Past, other_tenant: Tenant, walker: Walker
) -> None:
    make_worker()
    past(10, seconds=10)
    walker.begin()
    mine = [make_job(priority="batch", estimate_gpu_s=10.0) for _ in range(10)]
    walker.walk()
    quiet = start_s(mine[-1])
    for number in range(50):
        came = database_now() - timedelta(seconds=15 * number)
        theirs = make_job(tenant_id=other_tenant.id, estimate_gpu_s=10.0)
        Job.objects.filter(id=theirs).update(created_at=came)
    walker.walk()
    Job.objects.filter(tenant=other_tenant).update(state="cancelled")
    walker.walk()
    assert start_s(mine[-1]) > quiet + 20


def walked() -> None:
    """One round by a forecaster that has just started."""
    walker = Walker()
    walker.begin()
    walker.walk()
