"""Equal calls share one run and its result, and nobody loses by it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from foldline.artifacts.models import Artifact
from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.claims import Fence
from foldline.jobs.models import Attempt, Event, Job, JobArtifact
from foldline.jobs.services import claim
from foldline.jobs.states import State
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]

pytestmark = pytest.mark.django_db


@pytest.fixture
def call(make_job: MakeJob) -> MakeJob:
    """Submit the same call again and again; keywords change what is around the inputs."""

    def again(**changes: Any) -> UUID:
        return make_job(**{"fingerprint": "a" * 64, **changes})

    return again


def job_of(job_id: UUID) -> Job:
    return Job.objects.get(id=job_id)


def claim_one(revision: Revision, *, owner: str = "w1") -> Fence:
    (job,) = claim(revision_id=revision.id, owner=owner)
    return job.fence


class TestAttaching:
    def test_equal_calls_run_once_and_all_get_the_result(
        self, call: MakeJob, revision: Revision
    ) -> None:
        leader, *others = (call() for _ in range(5))
        fence = claim_one(revision)
        assert fence.job_id == leader
        assert claim(revision_id=revision.id, owner="w2") == []
        services.finish(fence, result={"x": 1}, warnings=[{"code": "w", "message": "m"}])
        for job_id in others:
            job = job_of(job_id)
            assert (job.state, job.result, job.attached_to_id) == ("succeeded", {"x": 1}, leader)
            assert job.warnings == [{"code": "w", "message": "m"}]
            assert job.gpu_seconds == 0
        assert Attempt.objects.count() == 1

    def test_a_call_that_comes_while_the_run_computes_is_attached(
        self, call: MakeJob, revision: Revision
    ) -> None:
        call()
        fence = claim_one(revision)
        late = call()
        services.finish(fence, result={"x": 1})
        assert job_of(late).state == "succeeded"

    def test_an_attached_call_gets_no_ticket(self, call: MakeJob, sent: list[str]) -> None:
        call()
        call()
        assert len(sent) <= 1

    def test_output_files_belong_to_all_of_them(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        call()
        other = call()
        file = Artifact.objects.create(
            tenant=owner_of_jobs, sha256="0" * 64, size=1, media_type="text/plain", name="a.txt"
        )
        services.finish(claim_one(revision), result={}, artifacts=[("a.txt", file.id)])
        assert JobArtifact.objects.filter(job=other, artifact=file, role="output").exists()

    @pytest.mark.parametrize("difference", ["fingerprint", "tenant", "no sharing"])
    def test_other_calls_run_on_their_own(
        self, call: MakeJob, revision: Revision, difference: str
    ) -> None:
        call()
        other = Tenant.objects.create(slug="other", name="Other")
        changes: dict[str, dict[str, Any]] = {
            "fingerprint": {"fingerprint": "b" * 64},
            "tenant": {"tenant_id": other.id},
            "no sharing": {"shared": False},
        }
        second = call(**changes[difference])
        assert job_of(second).attached_to_id is None
        assert {claim_one(revision).job_id, claim_one(revision).job_id} >= {second}

    def test_the_run_gets_the_best_priority_and_deadline_of_those_attached(
        self, call: MakeJob
    ) -> None:
        run = call(priority="batch", deadline_s=10.0)
        call(priority="batch", deadline_s=100.0)
        assert job_of(run).priority == "batch"
        deadline = job_of(run).deadline
        assert deadline is not None
        assert deadline - job_of(run).created_at > timedelta(seconds=50)
        call(priority="interactive")
        assert (job_of(run).priority, job_of(run).deadline) == ("interactive", None)

    def test_nobody_joins_a_run_whose_lease_has_passed(
        self, call: MakeJob, revision: Revision
    ) -> None:
        run = call()
        claim_one(revision)
        Job.objects.filter(id=run).update(lease_until=database_now() - timedelta(seconds=1))
        second = call()
        assert job_of(second).attached_to_id is None

    def test_nobody_joins_a_run_that_is_being_cancelled(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        run = call()
        claim_one(revision)
        services.cancel(tenant_id=owner_of_jobs.id, job_id=run)
        assert job_of(call()).attached_to_id is None


class TestCache:
    def test_a_finished_run_answers_later_calls_at_once(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        run = call()
        file = Artifact.objects.create(
            tenant=owner_of_jobs, sha256="0" * 64, size=1, media_type="text/plain", name="a.txt"
        )
        services.finish(claim_one(revision), result={"x": 1}, artifacts=[("a.txt", file.id)])
        hit = job_of(call())
        assert (hit.state, hit.result, hit.cache_of_id) == ("succeeded", {"x": 1}, run)
        assert JobArtifact.objects.filter(job=hit, artifact=file).exists()
        assert claim(revision_id=revision.id, owner="w1") == []

    @pytest.mark.parametrize("code", ["model_error", "invalid_input"])
    def test_a_failure_is_never_a_cached_answer(
        self, call: MakeJob, revision: Revision, code: str
    ) -> None:
        call()
        services.fail(claim_one(revision), error=job_error(code))
        assert job_of(call()).state == "queued"

    def test_a_caller_may_refuse_a_cached_answer(self, call: MakeJob, revision: Revision) -> None:
        call()
        services.finish(claim_one(revision), result={"x": 1})
        assert job_of(call(shared=False)).state == "queued"

    def test_an_idempotency_key_wins_over_the_cache(
        self, call: MakeJob, revision: Revision
    ) -> None:
        run = call(idempotency_key="k")
        services.finish(claim_one(revision), result={"x": 1})
        assert call(idempotency_key="k") == run
        assert call(idempotency_key="other") != run


class TestEnds:
    @pytest.mark.parametrize("code", ["invalid_input", "model_error"])
    def test_a_failure_that_would_be_theirs_too_ends_those_attached(
        self, call: MakeJob, revision: Revision, code: str
    ) -> None:
        call()
        other = call()
        services.fail(claim_one(revision), error=job_error(code))
        job = job_of(other)
        assert job.error is not None
        assert (job.state, job.error["code"], job.dead_letter) == ("failed", code, False)

    def test_a_run_that_was_out_of_time_is_repeated_for_those_attached(
        self, call: MakeJob, revision: Revision
    ) -> None:
        run = call()
        second, third = call(), call()
        services.fail(claim_one(revision), error=job_error("deadline_exceeded"))
        fence = claim_one(revision)
        assert fence.job_id == second
        services.finish(fence, result={"x": 2})
        assert job_of(third).result == {"x": 2}
        assert job_of(run).state == "failed"

    def test_cancelling_an_attached_call_touches_only_it(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        run, other = call(), call()
        assert services.cancel(tenant_id=owner_of_jobs.id, job_id=other) is State.CANCELLED
        services.finish(claim_one(revision), result={})
        assert (job_of(run).state, job_of(other).state) == ("succeeded", "cancelled")

    def test_cancelling_a_waiting_run_promotes_the_oldest_attached(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        run, second, third = call(), call(), call()
        services.cancel(tenant_id=owner_of_jobs.id, job_id=run)
        assert claim_one(revision).job_id == second
        assert job_of(third).attached_to_id == second

    @pytest.mark.django_db(transaction=True)
    def test_a_promoted_call_gets_a_ticket(
        self, call: MakeJob, sent: list[str], owner_of_jobs: Tenant
    ) -> None:
        run, _ = call(), call()
        sent.clear()
        services.cancel(tenant_id=owner_of_jobs.id, job_id=run)
        assert len(sent) == 1

    def test_an_expired_run_is_promoted_too(self, call: MakeJob, revision: Revision) -> None:
        run, second = call(), call()
        now = database_now()
        Job.objects.filter(id=run).update(start_by=now - timedelta(seconds=1))
        assert services.expire(run, now=now)
        assert claim_one(revision).job_id == second

    def test_a_promoted_call_leaves_the_place_to_a_run_that_began_meanwhile(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        call()
        fence = claim_one(revision)
        services.cancel(tenant_id=owner_of_jobs.id, job_id=fence.job_id)
        newer = call()
        Job.objects.filter(id=call()).update(attached_to=fence.job_id)
        services.stopped(fence)
        assert job_of(newer).shared
        assert Job.objects.filter(state="queued", attached_to=None).count() == 2


class TestHandOver:
    """Cancelling a running job that others are attached to does not restart the run."""

    @pytest.fixture
    def handed(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> tuple[Fence, UUID, UUID]:
        run, heir, third = call(), call(), call()
        fence = claim_one(revision)
        assert services.cancel(tenant_id=owner_of_jobs.id, job_id=run) is State.CANCELLED
        return fence, heir, third

    def test_the_heir_has_the_run_and_the_others_follow_it(
        self, handed: tuple[Fence, UUID, UUID]
    ) -> None:
        fence, heir, third = handed
        job = job_of(heir)
        assert (job.state, job.attempt, job.owner) == ("running", fence.attempt, fence.owner)
        assert job_of(third).attached_to_id == heir
        assert job_of(fence.job_id).state == "cancelled"

    def test_the_worker_goes_on_with_the_fence_it_has(
        self, handed: tuple[Fence, UUID, UUID]
    ) -> None:
        fence, heir, third = handed
        assert services.heartbeat(fence) is False
        services.progress(fence, fraction=0.5)
        services.finish(fence, result={"x": 1})
        assert job_of(heir).result == job_of(third).result == {"x": 1}
        assert job_of(fence.job_id).result is None

    def test_a_crash_requeues_the_heir(
        self, handed: tuple[Fence, UUID, UUID], revision: Revision
    ) -> None:
        fence, heir, _ = handed
        services.fail(fence, error=job_error("plugin_crashed"))
        again = claim_one(revision)
        assert (again.job_id, again.attempt) == (heir, fence.attempt + 1)

    def test_cancelling_the_heir_hands_over_again_and_the_last_one_stops_the_worker(
        self, handed: tuple[Fence, UUID, UUID], owner_of_jobs: Tenant
    ) -> None:
        fence, heir, third = handed
        services.cancel(tenant_id=owner_of_jobs.id, job_id=heir)
        assert services.heartbeat(fence) is False
        services.cancel(tenant_id=owner_of_jobs.id, job_id=third)
        assert services.heartbeat(fence) is True
        services.stopped(fence)
        assert {job.state for job in Job.objects.all()} == {"cancelled"}

    def test_each_pays_for_its_part_of_the_run(self, handed: tuple[Fence, UUID, UUID]) -> None:
        fence, heir, _ = handed
        services.finish(fence, result={})
        outcomes = dict(Attempt.objects.values_list("job_id", "outcome"))
        assert outcomes == {fence.job_id: "handed_over", heir: "succeeded"}

    def test_events_tell_who_took_over(self, handed: tuple[Fence, UUID, UUID]) -> None:
        fence, heir, _ = handed
        taken = Event.objects.get(job_id=heir, kind="running")
        assert taken.data["taken_from"] == str(fence.job_id)


@pytest.mark.django_db(transaction=True)
def test_thirty_equal_calls_at_once_make_one_run(call: MakeJob, revision: Revision) -> None:
    def submit() -> None:
        try:
            call()
        finally:
            connection.close()

    threads = [threading.Thread(target=submit) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Job.objects.count() == 30
    assert Job.objects.filter(attached_to=None).count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_key_used_at_once_makes_one_job(call: MakeJob) -> None:
    seen: set[UUID] = set()

    def submit() -> None:
        try:
            seen.add(call(idempotency_key="k"))
        finally:
            connection.close()

    threads = [threading.Thread(target=submit) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 1
    assert Job.objects.count() == 1
