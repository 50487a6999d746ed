from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import job_error
from foldline.fleet.models import Worker
from foldline.fleet.services import register
from foldline.jobs import pauses, services
from foldline.jobs.breaker import FIRST_PAUSE_S, Breaker, Cause, read, written
from foldline.jobs.claims import ClaimedJob
from foldline.jobs.models import Job, QueueState
from foldline.jobs.services import claim

MakeJob = Callable[..., UUID]

# The breaker learns after the commit of what it learns from.
pytestmark = pytest.mark.django_db(transaction=True)


def breaker_of(revision: Revision) -> Breaker:
    queue = QueueState.objects.filter(model_id=revision.model_id).first()
    return read(queue.breaker if queue else None)


def take(revision: Revision) -> list[ClaimedJob]:
    return claim(revision_id=revision.id, owner="w1")


def fail_next(revision: Revision, code: str = "plugin_crashed", **details: Any) -> None:
    (job,) = take(revision)
    services.fail(job.fence, error=job_error(code, "", **details))


def let_the_pause_pass(revision: Revision) -> None:
    queue = QueueState.objects.get(model_id=revision.model_id)
    queue.breaker = written(read(queue.breaker).with_trial_now(database_now()))
    queue.save()


@pytest.fixture
def payload(make_job: MakeJob) -> Callable[[], UUID]:
    """A job unlike all others."""
    return lambda: make_job(fingerprint=f"{uuid4().hex:0<64}")


@pytest.fixture
def looping(payload: Callable[[], UUID], revision: Revision) -> list[UUID]:
    """Three jobs that each crashed the model until they were poison, but the last one."""
    made = [payload() for _ in range(3)]
    for _ in range(7):
        fail_next(revision)
    assert breaker_of(revision).is_open
    return made


class TestCrashes:
    def test_after_three_payloads_in_a_row_nothing_is_claimed(
        self, looping: list[UUID], payload: Callable[[], UUID], revision: Revision
    ) -> None:
        payload()
        assert take(revision) == []
        assert pauses.room(revision.id, now=database_now()) == 0

    def test_the_log_says_so_once(
        self,
        payload: Callable[[], UUID],
        revision: Revision,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        for _ in range(3):
            payload()
        with caplog.at_level(logging.ERROR, logger="foldline.jobs.pauses"):
            for _ in range(7):
                fail_next(revision)
        assert [record.message for record in caplog.records] == ["model is crash looping"]

    @pytest.mark.parametrize("code", ["model_error", "invalid_input", "gpu_oom"])
    def test_an_answer_in_between_breaks_the_row(
        self, payload: Callable[[], UUID], revision: Revision, code: str
    ) -> None:
        for _ in range(2):
            payload()
        for _ in range(6):
            fail_next(revision)
        payload()
        fail_next(revision, code)
        assert breaker_of(revision) == Breaker()

    @pytest.mark.parametrize("code", ["worker_lost", "storage", "deadline_exceeded"])
    def test_what_may_not_be_the_models_doing_does_not_count(
        self, payload: Callable[[], UUID], revision: Revision, code: str
    ) -> None:
        payload()
        fail_next(revision, code)
        assert breaker_of(revision) == Breaker()

    def test_a_crash_of_a_call_with_several_jobs_counts_for_none(
        self, payload: Callable[[], UUID], revision: Revision
    ) -> None:
        for _ in range(3):
            payload()
        for job in claim(revision_id=revision.id, owner="w1", limit=3):
            services.fail(job.fence, error=job_error("plugin_crashed", "", batch=3))
        assert breaker_of(revision) == Breaker()

    def test_one_trial_is_made_with_a_payload_that_did_not_crash_it(
        self, looping: list[UUID], payload: Callable[[], UUID], revision: Revision
    ) -> None:
        fresh = payload()
        let_the_pause_pass(revision)
        (job,) = take(revision)
        assert job.fence.job_id == fresh
        let_the_pause_pass(revision)
        assert take(revision) == []

    def test_where_all_have_crashed_it_one_of_those_is_tried(
        self, looping: list[UUID], revision: Revision
    ) -> None:
        let_the_pause_pass(revision)
        assert [job.fence.job_id for job in take(revision)] == looping[2:]

    def test_a_trial_that_crashes_makes_the_pause_longer(
        self, looping: list[UUID], payload: Callable[[], UUID], revision: Revision
    ) -> None:
        payload()
        let_the_pause_pass(revision)
        fail_next(revision)
        left = read(QueueState.objects.get().breaker).trial_at
        assert left is not None
        assert timedelta(seconds=FIRST_PAUSE_S) < left - database_now() <= timedelta(seconds=60)

    def test_a_trial_that_succeeds_ends_it_and_sends_the_tickets(
        self, looping: list[UUID], payload: Callable[[], UUID], revision: Revision, sent: list[str]
    ) -> None:
        for _ in range(3):
            payload()
        let_the_pause_pass(revision)
        (job,) = take(revision)
        sent.clear()
        services.finish(job.fence, result={})
        assert breaker_of(revision) == Breaker()
        assert len(sent) == 3
        assert take(revision)

    def test_a_new_revision_is_not_held_back(
        self, looping: list[UUID], payload: Callable[[], UUID], revision: Revision
    ) -> None:
        Revision.objects.filter(id=revision.id).update(state="retired")
        other = Revision.objects.get(id=revision.id)
        other.pk, other.number, other.state = uuid4(), 2, "live"
        other.save(force_insert=True)
        Job.objects.filter(id=payload()).update(revision=other)
        assert take(other)


def start(revision: Revision, name: str, *, failure: str = "") -> None:
    worker_id = register(name=name, revision_id=revision.id, node="here", pid=1)
    told: dict[str, Any] = {"load_seconds": {"total": 1.0}, "state": "ready"}
    if failure:
        told = {"failure": {"code": "load_failed", "message": failure}, "state": "gone"}
    Worker.objects.filter(id=worker_id).update(**told)


class TestStarts:
    @pytest.fixture
    def failing(self, revision: Revision) -> None:
        for number in range(5):
            start(revision, f"w{number}", failure="no such file")
        pauses.watch_starts(now=database_now())

    def test_five_failed_starts_in_a_row_open_it(self, revision: Revision) -> None:
        start(revision, "first")
        for number in range(5):
            pauses.watch_starts(now=database_now())
            assert not breaker_of(revision).is_open
            start(revision, f"w{number}", failure="no such file")
        pauses.watch_starts(now=database_now())
        assert breaker_of(revision).cause is Cause.STARTS
        assert "no such file" in breaker_of(revision).reason

    def test_one_worker_at_a_time_may_try(self, failing: None, revision: Revision) -> None:
        assert not pauses.may_start(revision.id)
        let_the_pause_pass(revision)
        assert pauses.may_start(revision.id)
        assert not pauses.may_start(revision.id)

    def test_a_start_that_succeeds_closes_it(
        self, failing: None, revision: Revision, make_job: MakeJob, sent: list[str]
    ) -> None:
        make_job()
        sent.clear()
        start(revision, "at last")
        pauses.watch_starts(now=database_now())
        assert breaker_of(revision) == Breaker()
        assert pauses.may_start(revision.id)
        assert len(sent) == 1

    def test_a_worker_that_is_loaded_goes_on_serving(
        self, failing: None, revision: Revision, make_job: MakeJob
    ) -> None:
        make_job()
        assert take(revision)

    def test_whoever_starts_everything_anew_need_not_wait(
        self, failing: None, revision: Revision
    ) -> None:
        pauses.try_starts_again()
        assert pauses.may_start(revision.id)

    def test_nobody_is_kept_from_starting_a_model_that_works(self, revision: Revision) -> None:
        assert pauses.may_start(revision.id)


class TestPausing:
    def test_nothing_is_claimed_and_no_ticket_owed_until_it_is_resumed(
        self, make_job: MakeJob, revision: Revision, sent: list[str]
    ) -> None:
        for number in range(2):
            make_job(fingerprint=f"{number:064}")
        pauses.pause(revision.model_id, reason="the weights are replaced")
        assert take(revision) == []
        assert pauses.room(revision.id, now=database_now()) == 0
        sent.clear()
        pauses.resume(revision.model_id)
        assert len(sent) == 2
        assert take(revision)

    def test_a_retry_of_a_paused_model_sends_no_ticket(
        self, make_job: MakeJob, revision: Revision, sent: list[str]
    ) -> None:
        make_job()
        (job,) = take(revision)
        pauses.pause(revision.model_id, reason="maintenance")
        sent.clear()
        services.fail(job.fence, error=job_error("plugin_crashed"))
        assert sent == []

    def test_a_pause_needs_a_reason(self, revision: Revision) -> None:
        with pytest.raises(ValueError, match="reason"):
            pauses.pause(revision.model_id, reason=" ")

    def test_resuming_a_crash_looping_model_makes_the_next_trial_at_once(
        self, looping: list[UUID], revision: Revision
    ) -> None:
        pauses.resume(revision.model_id)
        assert breaker_of(revision).is_open
        assert take(revision)
