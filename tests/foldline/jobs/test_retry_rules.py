"""The retry rules on a real database: what is counted, what is passed on, what expires."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.claims import ClaimedJob, Fenced, RanOut
from foldline.jobs.models import Job
from foldline.jobs.sweeper import expire_due

MakeJob = Callable[..., UUID]
Fail = Callable[..., str]

pytestmark = pytest.mark.django_db


def take(revision: Revision, *, limit: int = 1) -> list[ClaimedJob]:
    Job.objects.update(not_before=None)
    return services.claim(revision_id=revision.id, owner="w1", limit=limit)


@pytest.fixture
def fail(revision: Revision) -> Fail:
    """Claim the one waiting job and let it fail; the state after."""

    def run(code: str, message: str = "", **details: object) -> str:
        (job,) = take(revision)
        if code == "worker_lost":
            state = services.lose(job.fence, now=database_now() + timedelta(hours=1))
        else:
            state = services.fail(job.fence, error=job_error(code, message, **details))
        return str(state)

    return run


def code_of(job_id: UUID) -> str:
    error = Job.objects.get(id=job_id).error
    assert error is not None
    return str(error["code"])


class TestCounting:
    """Attempts count by rule: each kind of trouble has an allowance of its own."""

    def test_a_full_disk_takes_nothing_from_what_a_lost_worker_is_allowed(
        self, make_job: MakeJob, fail: Fail
    ) -> None:
        job_id = make_job()
        codes = ["storage", "storage", "storage", "worker_lost", "plugin_crashed"]
        assert [fail(code) for code in codes] == ["queued"] * 5
        assert fail("worker_lost") == "failed"
        assert code_of(job_id) == "poison"

    def test_deaths_of_plugin_and_worker_count_together(
        self, make_job: MakeJob, fail: Fail
    ) -> None:
        make_job()
        assert [fail(c) for c in ("plugin_crashed", "worker_lost", "plugin_no_answer")] == [
            "queued",
            "queued",
            "failed",
        ]

    def test_out_of_memory_after_a_lost_worker_is_tried_once_more(
        self, make_job: MakeJob, fail: Fail
    ) -> None:
        make_job()
        assert [fail(code) for code in ("worker_lost", "gpu_oom", "host_oom")] == [
            "queued",
            "queued",
            "failed",
        ]

    def test_a_job_that_meets_every_trouble_ends_all_the_same(
        self, make_job: MakeJob, fail: Fail
    ) -> None:
        make_job()
        codes = ["storage", "worker_lost", "gpu_oom"] * 10
        states = []
        for code in codes:
            states.append(fail(code))
            if states[-1] != "queued":
                break
        assert states[-1] == "failed"
        assert len(states) <= 9


class TestAfterRunningOutOfMemory:
    def test_the_next_attempt_knows_how(
        self, make_job: MakeJob, fail: Fail, revision: Revision
    ) -> None:
        make_job()
        fail("gpu_oom", "20 GiB were asked for")
        (job,) = take(revision)
        assert job.ran_out == RanOut(
            code="gpu_oom", message="20 GiB were asked for", together=False
        )

    def test_it_knows_whether_others_were_in_the_call(
        self, make_job: MakeJob, fail: Fail, revision: Revision
    ) -> None:
        make_job()
        fail("host_oom", batch=4)
        (job,) = take(revision)
        assert job.ran_out is not None
        assert job.ran_out.together

    def test_it_still_knows_after_a_lost_worker(
        self, make_job: MakeJob, fail: Fail, revision: Revision
    ) -> None:
        make_job()
        fail("gpu_oom")
        fail("worker_lost")
        (job,) = take(revision)
        assert job.ran_out is not None
        assert job.ran_out.code == "gpu_oom"

    def test_other_failures_do_not_make_it_smaller(
        self, make_job: MakeJob, fail: Fail, revision: Revision
    ) -> None:
        make_job()
        fail("storage")
        (job,) = take(revision)
        assert job.ran_out is None


class TestCompanions:
    def test_a_job_that_is_tried_again_runs_alone(
        self, make_job: MakeJob, fail: Fail, revision: Revision
    ) -> None:
        retried = make_job()
        fail("plugin_crashed")
        others = [make_job(fingerprint=f"{uuid4().hex:0<64}") for _ in range(3)]
        assert [job.fence.job_id for job in take(revision, limit=4)] == [retried]
        assert [job.fence.job_id for job in take(revision, limit=4)] == others

    def test_new_jobs_stop_before_one_that_is_tried_again(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        first = make_job()
        Job.objects.update(not_before=database_now() + timedelta(hours=1))
        retried = make_job(fingerprint="a" * 64)
        (job,) = services.claim(revision_id=revision.id, owner="w1")
        services.fail(job.fence, error=job_error("plugin_crashed"))
        make_job(fingerprint="b" * 64)
        assert [job.fence.job_id for job in take(revision, limit=4)] == [first]
        assert [job.fence.job_id for job in take(revision, limit=4)] == [retried]


class TestDeadlines:
    def test_a_job_that_started_in_time_may_be_tried_again_after_that_time(
        self, make_job: MakeJob, fail: Fail, revision: Revision
    ) -> None:
        job_id = make_job(start_within_s=60.0, deadline_s=6000.0)
        fail("plugin_crashed")
        later = database_now() + timedelta(seconds=600)
        assert expire_due(now=later) == 0
        job = Job.objects.get(id=job_id)
        assert (job.state, job.start_by) == ("queued", job.deadline)
        assert take(revision)

    def test_without_a_deadline_it_waits_as_long_as_it_must(
        self, make_job: MakeJob, fail: Fail
    ) -> None:
        make_job(start_within_s=60.0)
        fail("storage")
        assert expire_due(now=database_now() + timedelta(days=1)) == 0

    def test_when_the_deadline_passes_before_the_next_try_it_ends(
        self, make_job: MakeJob, fail: Fail, revision: Revision
    ) -> None:
        job_id = make_job(deadline_s=60.0)
        fail("storage")
        assert expire_due(now=database_now() + timedelta(seconds=61)) == 1
        assert (Job.objects.get(id=job_id).state, code_of(job_id)) == (
            "expired",
            "deadline_exceeded",
        )
        assert take(revision) == []

    def test_a_job_that_never_started_has_expired(self, make_job: MakeJob) -> None:
        job_id = make_job(start_within_s=5.0)
        assert expire_due(now=database_now() + timedelta(seconds=6)) == 1
        assert code_of(job_id) == "expired"


class TestCheckpoints:
    def test_the_next_attempt_knows_what_was_saved_last(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        make_job()
        for step in (9, 3):  # the second attempt had to begin anew
            (job,) = take(revision)
            services.checkpointed(job.fence, step=step)
            services.lose(job.fence, now=database_now() + timedelta(hours=1))
        (job,) = take(revision)
        assert job.saved == (2, 3)

    def test_an_attempt_that_lost_its_job_notes_nothing(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        make_job()
        (job,) = take(revision)
        services.lose(job.fence, now=database_now() + timedelta(hours=1))
        with pytest.raises(Fenced):
            services.checkpointed(job.fence, step=1)
