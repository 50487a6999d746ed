from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.conf import settings

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import IdempotencyKeyReused, JobNotFound, job_error
from foldline.ids import uuid7
from foldline.jobs import services
from foldline.jobs.claims import Fence, Fenced
from foldline.jobs.models import Attempt, Event, Job, QueueState
from foldline.jobs.services import claim
from foldline.jobs.states import State
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]

pytestmark = pytest.mark.django_db


def claim_one(revision: Revision, *, owner: str = "w1") -> Fence:
    (job,) = claim(revision_id=revision.id, owner=owner)
    return job.fence


def state_of(job_id: UUID) -> str:
    return Job.objects.get(id=job_id).state


def kinds_of(job_id: UUID) -> list[str]:
    events = Event.objects.filter(job_id=job_id).order_by("sequence")
    return list(events.values_list("kind", flat=True))


class TestSubmit:
    def test_a_job_is_stored_as_it_was_sent(self, make_job: MakeJob) -> None:
        job = Job.objects.get(id=make_job(deadline_s=100.0, start_within_s=10.0, session="s1"))
        assert job.inputs == {"seconds": 1}
        assert job.normalized_input == {"seconds": 1, "echo": None}
        assert (job.state, job.attempt, job.owner, job.session) == ("queued", 0, "", "s1")
        assert job.deadline is not None
        assert job.deadline - job.created_at == timedelta(seconds=100)
        assert job.start_by is not None
        assert job.start_by - job.created_at == timedelta(seconds=10)
        assert kinds_of(job.id) == ["queued"]

    def test_a_job_with_a_deadline_must_start_before_it(self, make_job: MakeJob) -> None:
        job = Job.objects.get(id=make_job(deadline_s=5.0))
        assert job.start_by == job.deadline

    def test_without_a_deadline_a_job_waits_for_ever(self, make_job: MakeJob) -> None:
        job = Job.objects.get(id=make_job())
        assert (job.start_by, job.deadline) == (None, None)

    @pytest.mark.django_db(transaction=True)
    def test_one_ticket_is_sent_after_the_commit(self, make_job: MakeJob, sent: list[str]) -> None:
        make_job()
        assert sent == ["foldline.sleepy.r1"]

    def test_the_same_key_gives_the_same_job(self, make_job: MakeJob) -> None:
        first = make_job(idempotency_key="k")
        assert make_job(idempotency_key="k") == first
        assert Job.objects.count() == 1
        assert kinds_of(first) == ["queued"]

    def test_the_same_key_with_another_payload_is_refused(self, make_job: MakeJob) -> None:
        make_job(idempotency_key="k")
        with pytest.raises(IdempotencyKeyReused):
            make_job(idempotency_key="k", payload_digest="e" * 64)

    def test_two_tenants_may_use_the_same_key(self, make_job: MakeJob) -> None:
        other = Tenant.objects.create(slug="other", name="Other")
        assert make_job(idempotency_key="k") != make_job(idempotency_key="k", tenant_id=other.id)


class TestClaim:
    def test_the_oldest_job_of_all_flows_goes_first(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        other = Tenant.objects.create(slug="other", name="Other")
        made = [
            make_job(priority="batch"),
            make_job(tenant_id=other.id),
            make_job(),
            make_job(priority="batch", tenant_id=other.id),
        ]
        assert [claim_one(revision).job_id for _ in made] == made

    def test_an_empty_line_gives_nothing(self, revision: Revision) -> None:
        assert claim(revision_id=revision.id, owner="w1") == []

    def test_a_claim_raises_the_attempt_and_takes_a_lease(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        job = Job.objects.get(id=make_job())
        fence = claim_one(revision)
        job.refresh_from_db()
        assert fence == Fence(job_id=job.id, attempt=1, owner="w1")
        assert (job.state, job.attempt, job.owner) == ("running", 1, "w1")
        assert job.lease_until is not None
        lease = job.lease_until - database_now()
        assert timedelta(0) < lease <= timedelta(seconds=settings.LEASE_S)
        assert Attempt.objects.get(job=job).worker == "w1"

    def test_one_claim_takes_one_job(self, make_job: MakeJob, revision: Revision) -> None:
        for _ in range(3):
            make_job()
        claim_one(revision)
        assert Job.objects.filter(state="running").count() == 1

    def test_a_batchable_model_takes_companions_up_to_its_size(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        made = [make_job() for _ in range(5)]
        taken = claim(revision_id=revision.id, owner="w1", limit=3)
        assert [job.fence.job_id for job in taken] == made[:3]

    def test_a_job_that_is_not_due_yet_lets_others_pass(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        late, other = make_job(), make_job()
        Job.objects.filter(id=late).update(not_before=database_now() + timedelta(hours=1))
        assert claim_one(revision).job_id == other
        assert claim(revision_id=revision.id, owner="w1") == []

    def test_a_job_past_its_start_is_not_claimed(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        make_job(start_within_s=0.000001)
        assert claim(revision_id=revision.id, owner="w1") == []

    def test_an_attached_job_is_never_claimed(self, make_job: MakeJob, revision: Revision) -> None:
        leader, follower = make_job(), make_job()
        Job.objects.filter(id=follower).update(attached_to=leader)
        assert claim_one(revision).job_id == leader
        assert claim(revision_id=revision.id, owner="w1") == []

    def test_a_paused_model_gives_nothing(self, make_job: MakeJob, revision: Revision) -> None:
        make_job()
        QueueState.objects.create(model_id=revision.model_id, paused="crash_looping")
        assert claim(revision_id=revision.id, owner="w1") == []

    def test_the_run_limit_and_the_deadline_bound_the_seconds_left(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        make_job(deadline_s=50.0)
        make_job()
        soon, later = claim(revision_id=revision.id, owner="w1", limit=2)
        assert 0 < soon.seconds_left <= 50
        assert later.seconds_left == revision.run_timeout_s


class TestFence:
    """Every write of a worker is refused once the attempt is no longer its own."""

    @pytest.fixture
    def stale(self, make_job: MakeJob, revision: Revision) -> Fence:
        make_job()
        fence = claim_one(revision)
        services.lose(fence, now=database_now() + timedelta(hours=1))
        claim_one(revision, owner="w2")
        return fence

    def test_a_stale_heartbeat_is_fenced(self, stale: Fence) -> None:
        with pytest.raises(Fenced):
            services.heartbeat(stale)

    def test_stale_progress_is_fenced(self, stale: Fence) -> None:
        with pytest.raises(Fenced):
            services.progress(stale, fraction=0.5)

    def test_a_stale_finish_writes_nothing(self, stale: Fence) -> None:
        with pytest.raises(Fenced):
            services.finish(stale, result={"wrong": True})
        job = Job.objects.get(id=stale.job_id)
        assert (job.state, job.result, job.owner) == ("running", None, "w2")

    def test_a_stale_failure_writes_nothing(self, stale: Fence) -> None:
        with pytest.raises(Fenced):
            services.fail(stale, error=job_error("model_error"))
        assert state_of(stale.job_id) == "running"

    def test_a_stale_stop_writes_nothing(self, stale: Fence) -> None:
        with pytest.raises(Fenced):
            services.stopped(stale)
        assert state_of(stale.job_id) == "running"

    def test_another_owner_with_the_right_attempt_is_fenced(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        make_job()
        mine = claim_one(revision)
        with pytest.raises(Fenced):
            services.heartbeat(Fence(job_id=mine.job_id, attempt=mine.attempt, owner="thief"))

    def test_a_finish_is_accepted_when_nobody_has_claimed_since_the_lease_was_lost(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        make_job()
        fence = claim_one(revision)
        services.lose(fence, now=database_now() + timedelta(hours=1))
        services.finish(fence, result={"done": 1})
        assert state_of(fence.job_id) == "succeeded"


class TestFinishAndFail:
    def test_a_result_ends_the_job_and_its_attempt(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        make_job()
        fence = claim_one(revision)
        services.finish(fence, result={"x": 1}, warnings=[{"code": "w", "message": "m"}])
        job = Job.objects.get(id=fence.job_id)
        assert (job.state, job.result, job.lease_until) == ("succeeded", {"x": 1}, None)
        assert job.warnings == [{"code": "w", "message": "m"}]
        attempt = Attempt.objects.get(job=job)
        assert attempt.outcome == "succeeded"
        assert job.gpu_seconds == pytest.approx(attempt.gpu_seconds)
        assert kinds_of(job.id) == ["queued", "running", "succeeded"]

    def test_a_failure_of_the_input_is_final(self, make_job: MakeJob, revision: Revision) -> None:
        make_job()
        fence = claim_one(revision)
        assert services.fail(fence, error=job_error("invalid_input")) is State.FAILED
        job = Job.objects.get(id=fence.job_id)
        assert job.error is not None
        assert (job.error["code"], job.dead_letter) == ("invalid_input", False)

    @pytest.mark.django_db(transaction=True)
    def test_a_crash_puts_the_job_back_in_front_with_a_ticket(
        self, make_job: MakeJob, revision: Revision, sent: list[str]
    ) -> None:
        first, _second = make_job(), make_job()
        fence = claim_one(revision)
        sent.clear()
        assert services.fail(fence, error=job_error("plugin_crashed")) is State.QUEUED
        assert sent == ["foldline.sleepy.r1"]
        again = claim_one(revision)
        assert (again.job_id, again.attempt) == (first, 2)

    def test_the_third_crash_is_poison(self, make_job: MakeJob, revision: Revision) -> None:
        make_job()
        for _ in range(3):
            services.fail(claim_one(revision), error=job_error("plugin_crashed"))
        job = Job.objects.get()
        assert job.error is not None
        assert (job.state, job.error["code"], job.dead_letter) == ("failed", "poison", True)
        assert job.error["details"]["cause"]["code"] == "plugin_crashed"
        assert Attempt.objects.filter(job=job, outcome="plugin_crashed").count() == 3

    def test_a_back_off_waits_in_the_database(self, make_job: MakeJob, revision: Revision) -> None:
        make_job()
        services.fail(claim_one(revision), error=job_error("storage"))
        job = Job.objects.get()
        assert job.not_before is not None
        assert job.not_before > database_now()
        assert claim(revision_id=revision.id, owner="w1") == []

    def test_progress_is_shown(self, make_job: MakeJob, revision: Revision) -> None:
        make_job()
        fence = claim_one(revision)
        services.progress(fence, fraction=0.5, stage="fold", message="half way")
        progress = Job.objects.get().progress
        assert progress is not None
        assert (progress["fraction"], progress["stage"]) == (0.5, "fold")


class TestCancel:
    def test_a_waiting_job_ends_at_once(
        self, make_job: MakeJob, owner_of_jobs: Tenant, revision: Revision
    ) -> None:
        job_id = make_job()
        assert services.cancel(tenant_id=owner_of_jobs.id, job_id=job_id) is State.CANCELLED
        assert claim(revision_id=revision.id, owner="w1") == []

    def test_a_running_job_ends_when_its_worker_has_stopped_it(
        self, make_job: MakeJob, owner_of_jobs: Tenant, revision: Revision
    ) -> None:
        job_id = make_job()
        fence = claim_one(revision)
        assert services.heartbeat(fence) is False
        assert services.cancel(tenant_id=owner_of_jobs.id, job_id=job_id) is State.RUNNING
        assert services.heartbeat(fence) is True
        services.stopped(fence)
        assert state_of(job_id) == "cancelled"
        assert kinds_of(job_id) == ["queued", "running", "cancel_requested", "cancelled"]

    def test_cancelling_twice_changes_nothing(
        self, make_job: MakeJob, owner_of_jobs: Tenant, revision: Revision
    ) -> None:
        job_id = make_job()
        claim_one(revision)
        for _ in range(2):
            services.cancel(tenant_id=owner_of_jobs.id, job_id=job_id)
        assert kinds_of(job_id).count("cancel_requested") == 1

    def test_a_finished_job_stays_finished(
        self, make_job: MakeJob, owner_of_jobs: Tenant, revision: Revision
    ) -> None:
        job_id = make_job()
        services.finish(claim_one(revision), result={})
        assert services.cancel(tenant_id=owner_of_jobs.id, job_id=job_id) is State.SUCCEEDED

    def test_anothers_job_is_not_found(self, make_job: MakeJob) -> None:
        other = Tenant.objects.create(slug="other", name="Other")
        job_id = make_job()
        for unknown in (job_id, uuid7()):
            with pytest.raises(JobNotFound):
                services.cancel(tenant_id=other.id, job_id=unknown)
        assert state_of(job_id) == "queued"

    def test_a_lost_worker_does_not_revive_a_cancelled_job(
        self, make_job: MakeJob, owner_of_jobs: Tenant, revision: Revision
    ) -> None:
        job_id = make_job()
        fence = claim_one(revision)
        services.cancel(tenant_id=owner_of_jobs.id, job_id=job_id)
        services.lose(fence, now=database_now() + timedelta(hours=1))
        assert state_of(job_id) == "cancelled"
