from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.forecasts import calibration
from foldline.forecasts.calibration import SAMPLE, factors, keep_told, learn, shown
from foldline.forecasts.models import Calibration, Told
from foldline.forecasts.sample import Newcomer, told_to
from foldline.forecasts.walker import Walker
from foldline.ids import uuid7
from foldline.jobs.models import Fault, Job
from foldline.jobs.services import cancel, claim
from foldline.scheduling.eta import calibrate
from foldline.tenants.models import Tenant
from tests.foldline.forecasts.conftest import ran
from tests.foldline.forecasts.outlooks import NOW, some_outlook

MakeJob = Callable[..., UUID]
MakeWorker = Callable[..., Worker]

pytestmark = pytest.mark.django_db


def told(revision: Revision, job_id: UUID, *, p50: float, p90: float) -> Told:
    return Told(
        job_id=job_id,
        model_id=revision.model_id,
        priority="interactive",
        at=database_now(),
        start_p50_s=p50,
        start_p90_s=p90,
    )


def started(job_id: UUID, *, after_s: float) -> None:
    """The job started so long after what it was told."""
    at = Told.objects.get(job_id=job_id).at
    Job.objects.filter(id=job_id).update(state="succeeded", attempt=1)
    ran(job_id, began=at + timedelta(seconds=after_s), seconds=1)


def test_a_late_start_makes_the_next_p90_longer_and_one_in_time_a_little_shorter(
    make_job: MakeJob, revision: Revision
) -> None:
    late, early = make_job(), make_job()
    keep_told([told(revision, late, p50=10, p90=20)])
    started(late, after_s=25)
    assert learn(now=NOW) == 1
    longer = factors(revision.model_id)["interactive"]
    assert longer > 1
    keep_told([told(revision, early, p50=10, p90=20)])
    started(early, after_s=15)
    learn(now=NOW)
    assert 1 < factors(revision.model_id)["interactive"] < longer
    (row,) = shown()
    assert (row.jobs, row.coverage) == (2, 0.5)
    assert not Told.objects.exists()


def test_the_error_counts_long_waits_only(make_job: MakeJob, revision: Revision) -> None:
    short, long = make_job(), make_job()
    keep_told([told(revision, short, p50=1, p90=50), told(revision, long, p50=80, p90=150)])
    started(short, after_s=10)
    started(long, after_s=100)
    learn(now=NOW)
    (row,) = shown()
    assert (row.jobs, row.long_waits) == (2, 1)
    assert row.error == pytest.approx(0.2)


def test_a_job_that_ends_without_starting_teaches_nothing(
    make_job: MakeJob, revision: Revision, tenant: Tenant
) -> None:
    gone, cancelled, waiting = uuid7(), make_job(), make_job()
    keep_told([told(revision, job, p50=1, p90=2) for job in (gone, cancelled, waiting)])
    cancel(tenant_id=tenant.id, job_id=cancelled)
    assert learn(now=NOW) == 0
    assert not Calibration.objects.exists()
    assert [kept.job_id for kept in Told.objects.all()] == [waiting]


def test_what_is_kept_is_bounded(revision: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MOST_OPEN", SAMPLE + 5)
    for _ in range(3):
        keep_told([told(revision, uuid7(), p50=1, p90=2) for _ in range(2 * SAMPLE)])
    assert Told.objects.count() == SAMPLE + 5


def test_a_sample_is_taken_over_all_newcomers(revision: Revision) -> None:
    jobs = [Newcomer(job_id=uuid7(), flow="a:batch", created_at=NOW) for _ in range(100)]
    sample = told_to(jobs, model_id=revision.model_id, outlook=some_outlook())
    assert len(sample) == SAMPLE
    assert {each.job_id for each in sample} <= {job.job_id for job in jobs}
    assert sample[-1].job_id > jobs[90].job_id


def test_what_was_told_is_what_the_forecast_said_when_the_job_came(revision: Revision) -> None:
    came = NOW + timedelta(seconds=2)
    first, second = (Newcomer(job_id=uuid7(), flow="a:batch", created_at=came) for _ in range(2))
    outlook = some_outlook()
    one, two = told_to([second, first], model_id=revision.model_id, outlook=outlook)
    assert (one.job_id, two.job_id) == (first.job_id, second.job_id)
    expected = outlook.start_s(200.0, priority="batch")
    assert expected is not None
    assert (one.start_p50_s, one.start_p90_s) == (expected[0] - 2, expected[1] - 2)
    assert two.start_p50_s > one.start_p50_s
    assert one.at == came


def test_nothing_is_learned_of_a_job_older_than_the_forecast(revision: Revision) -> None:
    for apart in (timedelta(seconds=-1), timedelta(seconds=31)):
        job = Newcomer(job_id=uuid7(), flow="a:batch", created_at=NOW + apart)
        assert told_to([job], model_id=revision.model_id, outlook=some_outlook()) == []


def test_a_walk_keeps_what_new_jobs_were_told_and_learns_when_they_start(
    make_job: MakeJob, make_worker: MakeWorker, revision: Revision, walker: Walker
) -> None:
    make_worker()
    walker.walk()
    job, quick = make_job(), make_job()
    (claimed,) = claim(revision_id=revision.id, owner="w1")
    assert claimed.fence.job_id == job
    walker.walk()
    assert [kept.job_id for kept in Told.objects.all()] == [quick]
    claim(revision_id=revision.id, owner="w1")
    walker.walk()
    assert Calibration.objects.get().jobs == 2


@pytest.mark.parametrize("odd_factor", [lambda: 1 / 0, lambda: None], ids=["a bug", "no number"])
def test_a_sample_that_cannot_be_learned_from_keeps_no_other_from_it(
    revision: Revision,
    make_job: MakeJob,
    monkeypatch: pytest.MonkeyPatch,
    odd_factor: Callable[[], float],
) -> None:
    """Nor the walk, whose transaction this is a part of."""
    odd, other = make_job(), make_job()
    keep_told([told(revision, each, p50=10.0, p90=20.0) for each in (odd, other)])
    for job_id in (odd, other):
        ran(job_id, began=database_now(), seconds=1.0)
    tries: list[bool] = []

    def fails_once(factor: float, *, missed: bool) -> float:
        tries.append(missed)
        return calibrate(factor, missed=missed) if len(tries) > 1 else odd_factor()

    monkeypatch.setattr(calibration, "calibrate", fails_once)
    learn(now=database_now())
    assert Fault.objects.get().part == "forecast: calibration"
    assert Calibration.objects.get().jobs == 1
    assert not Told.objects.exists(), "nobody asks for them again with each walk"
