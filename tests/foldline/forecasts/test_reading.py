from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.forecasts import reading
from foldline.forecasts.models import Forecast
from foldline.forecasts.prospects import UNKNOWN, Prospect
from foldline.forecasts.reading import estimate_gpu_s, memory_of, prospect_of, reading_of
from foldline.forecasts.walker import Walker
from foldline.jobs.models import Job
from foldline.jobs.services import claim
from foldline.scheduling.walk import COUNTED_AHEAD
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]
MakeWorker = Callable[..., Worker]
Past = Callable[..., None]

pytestmark = pytest.mark.django_db


def told(job_id: UUID, *, later_s: float = 0.0) -> Prospect:
    job = Job.objects.select_related("attached_to").get(id=job_id)
    return prospect_of(job, now=database_now() + timedelta(seconds=later_s))


def test_without_a_forecast_nothing_is_claimed(make_job: MakeJob, revision: Revision) -> None:
    assert told(make_job()) == UNKNOWN
    assert estimate_gpu_s(revision.id, size=1) is None


def test_an_old_forecast_counts_as_none(make_job: MakeJob, walker: Walker) -> None:
    job = make_job()
    walker.walk()
    assert told(job, later_s=20).position == 1
    assert told(job, later_s=31) == UNKNOWN


def test_a_forecast_is_kept_for_a_second(
    make_job: MakeJob,
    revision: Revision,
    walker: Walker,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: Any,
) -> None:
    walker.walk()
    monkeypatch.setattr(reading, "KEEP_S", 1.0)
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    now = database_now()
    known = reading_of(revision.id, now=now)
    walker.walk()
    with django_assert_num_queries(0):
        assert reading_of(revision.id, now=now) is known
    monkeypatch.setattr("time.monotonic", lambda: 1001.5)
    assert reading_of(revision.id, now=now) is not known


def test_a_forecast_that_was_not_walked_anew_is_not_read_again(
    revision: Revision, walker: Walker
) -> None:
    walker.walk()
    now = database_now()
    assert reading_of(revision.id, now=now) is reading_of(revision.id, now=now)


def test_a_job_that_came_after_the_walk_stands_behind_those_of_its_flow(
    make_job: MakeJob, walker: Walker
) -> None:
    make_job()
    walker.walk()
    later = [make_job() for _ in range(3)]
    assert [told(job).position for job in later] == [2, 3, 4]


def test_of_a_long_flow_no_more_are_counted_than_are_told_apart(
    make_job: MakeJob, walker: Walker
) -> None:
    walker.walk()
    job = make_job()
    with CaptureQueriesContext(connection) as asked:
        told(job)
    assert f"LIMIT {COUNTED_AHEAD}" in asked.captured_queries[-1]["sql"]


def test_a_place_told_from_the_walk_before_rises_with_a_reason(
    make_job: MakeJob, other_tenant: Tenant, walker: Walker
) -> None:
    """A gateway keeps a forecast for a second: its submits are told of the walk before."""
    make_job(priority="batch", estimate_gpu_s=10.0)
    walker.walk()
    first = make_job(priority="batch", estimate_gpu_s=10.0)
    at_submit = told(first).position
    Job.objects.filter(id=first).update(state="running", owner="w", lease_until=database_now())
    make_job(tenant_id=other_tenant.id, estimate_gpu_s=10.0)
    walker.walk()
    Job.objects.filter(id=first).update(state="queued")
    unseen = told(first)
    assert (at_submit, unseen.position, unseen.reason) == (2, 3, "fair_share")
    walker.walk()
    assert (told(first).position, told(first).reason) == (3, "fair_share")


def test_a_job_that_runs_shows_when_it_ends(
    make_job: MakeJob, make_worker: MakeWorker, past: Past, revision: Revision, walker: Walker
) -> None:
    make_worker()
    past(10, seconds=50)
    walker.begin()
    job = make_job()
    walker.walk()
    claim(revision_id=revision.id, owner="w1")
    shown = told(job)
    assert (shown.position, shown.start_p50) == (None, None)
    assert shown.finish_p50 is not None
    began = Job.objects.get(id=job).started_at
    assert began is not None
    assert (shown.finish_p50 - began).total_seconds() == pytest.approx(50, abs=3)


def test_an_attached_job_shows_what_its_run_can_expect(make_job: MakeJob, walker: Walker) -> None:
    make_job()
    run = make_job(fingerprint="f" * 64)
    attached = make_job(fingerprint="f" * 64)
    walker.walk()
    assert Job.objects.get(id=attached).attached_to_id == run
    assert told(attached) == told(run)
    assert told(attached).position == 2


def test_a_job_that_has_ended_expects_nothing(make_job: MakeJob, walker: Walker) -> None:
    job = make_job()
    walker.walk()
    Job.objects.update(state="cancelled")
    assert told(job) == UNKNOWN


def test_an_estimate_goes_by_size_and_share(
    make_job: MakeJob, make_worker: MakeWorker, past: Past, revision: Revision, walker: Walker
) -> None:
    make_worker(share=0.25)
    past(20, seconds=40, share=0.25)
    walker.begin()
    walker.walk()
    assert estimate_gpu_s(revision.id, size=0) == pytest.approx(10)


def test_memory_is_what_was_measured(
    make_worker: MakeWorker, revision: Revision, walker: Walker
) -> None:
    now = database_now()
    make_worker("w1", peak_memory_bytes=0)
    walker.walk()
    assert memory_of(revision.id, now=now) is None
    limit = revision.memory_mb * 2**20
    make_worker("w2", state="gone", peak_memory_bytes=limit + 1)
    walker.walk()
    assert memory_of(revision.id, now=now) == {
        "peak_bytes": limit + 1,
        "limit_bytes": limit,
        "fits": False,
    }


def test_another_tenants_line_is_not_mine(
    make_job: MakeJob, other_tenant: Tenant, walker: Walker
) -> None:
    """A newcomer stands before the long line of another tenant, and is told so at submit."""
    for _ in range(10):
        make_job(estimate_gpu_s=10.0)
    walker.walk()
    new = make_job(tenant_id=other_tenant.id, estimate_gpu_s=10.0)
    at_submit = told(new).position
    walker.walk()
    assert at_submit == told(new).position
    assert told(new).reason is None
    assert Forecast.objects.count() == 1


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a file has no session to lose")
@pytest.mark.django_db(transaction=True)
def test_a_session_that_was_lost_is_djangos_error_not_the_drivers(revision: Revision) -> None:
    connection.ensure_connection()
    connection.connection.close()
    try:
        with pytest.raises(OperationalError):
            reading_of(revision.id, now=datetime.now(UTC))
    finally:
        connection.close()
