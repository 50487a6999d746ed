"""Many calls in one request: each is accepted or refused as if it came alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import (
    BatchNotFound,
    FoldlineError,
    IdempotencyKeyReused,
    InvalidInput,
    QuotaExceeded,
    QuotaForbids,
    RepeatFailure,
)
from foldline.jobs import batches, services
from foldline.jobs.admission import Submission, Submitted
from foldline.jobs.batches import BatchSubmission, SubmittedBatch
from foldline.jobs.models import Batch, Event, FailingCall, Job, JobArtifact
from foldline.jobs.retention import Removed, clean
from foldline.tenants.models import Tenant
from tests.foldline.jobs.test_retention import upload

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., UUID]
MakeSubmission = Callable[..., Submission]
Limit = Callable[..., None]
Send = Callable[..., SubmittedBatch]


@pytest.fixture
def send(owner_of_jobs: Tenant, sent: list[str]) -> Send:
    """Submit items as one batch; keywords are those of the whole."""

    def submit(items: Iterable[Submission | FoldlineError], **whole: Any) -> SubmittedBatch:
        tenant_id = owner_of_jobs.id
        return batches.submit(BatchSubmission(tenant_id=tenant_id, items=list(items), **whole))

    return submit


def ids(accepted: SubmittedBatch) -> list[UUID | None]:
    return [each.job_id if isinstance(each, Submitted) else None for each in accepted.outcomes]


def kinds(accepted: SubmittedBatch) -> list[type]:
    return [type(each) for each in accepted.outcomes]


def test_each_call_becomes_a_job_with_an_event_and_a_ticket(
    send: Send,
    make_submission: MakeSubmission,
    sent: list[str],
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    calls = [make_submission(session=f"s{n}", deadline_s=60, start_within_s=9) for n in range(30)]
    with django_capture_on_commit_callbacks(execute=True):
        accepted = send(calls)
    jobs = Job.objects.order_by("id")
    assert ids(accepted) == [job.id for job in jobs]
    assert [job.session for job in jobs] == [f"s{n}" for n in range(30)]
    assert {(job.deadline - job.start_by).total_seconds() for job in jobs} == {51}  # type: ignore[operator]  # both are set
    assert Event.objects.filter(sequence=1, kind="queued").count() == 30
    assert sent == ["foldline.sleepy.r1"] * 30
    assert [each.ahead_in_flow for each in accepted.outcomes] == list(range(30))  # type: ignore[union-attr]  # all accepted


def test_a_job_of_a_batch_is_written_as_one_that_came_alone(
    send: Send, make_submission: MakeSubmission
) -> None:
    fields: dict[str, Any] = {
        "inputs": {
            "name": 'Ä "quoted" \\ % \U0001d6fc',
            "big": 2**63,
            "x": [1, 1.5, None, {"a": True}],
        },
        "seed": 2**63 - 1,
        "priority": "batch",
        "warnings": [{"code": "c", "message": "m"}],
        "estimate_gpu_s": 1.25,
        "input_size": 70_000,
        "next_models": ["other"],
        "notify": True,
        "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01",
        "shared": False,
        "fingerprint": "f" * 64,
    }
    send([make_submission(**fields)])
    services.submit(make_submission(**fields))
    differs = {"id", "created_at"}
    names = [field.attname for field in Job._meta.fields if field.attname not in differs]
    together, alone = Job.objects.values(*names)
    assert together == alone
    assert together["inputs"] == fields["inputs"]


def test_a_broken_item_does_not_sink_the_rest(send: Send, make_submission: MakeSubmission) -> None:
    items = [InvalidInput() if n % 5 < 2 else make_submission() for n in range(100)]
    accepted = send(items, request_id="r1")
    assert Job.objects.count() == 60
    assert [job is None for job in accepted.batch.jobs] == [n % 5 < 2 for n in range(100)]
    assert len(accepted.batch.refusals) == 40
    stored = Batch.objects.get()
    assert (stored.jobs, stored.refusals) == (accepted.batch.jobs, accepted.batch.refusals)
    assert stored.refusals["5"]["code"] == "invalid_input"
    assert stored.refusals["5"]["request_id"] == "r1"


def test_a_batch_of_broken_items_only_is_kept_with_its_problems(send: Send) -> None:
    send([InvalidInput(), InvalidInput()], idempotency_key="k")
    assert Batch.objects.get().jobs == [None, None]


class TestKeys:
    def test_the_key_of_the_whole_names_the_batch_and_its_jobs_once(
        self, send: Send, make_submission: MakeSubmission
    ) -> None:
        whole: dict[str, Any] = {"idempotency_key": "k", "payload_digest": "p" * 64}
        first = send([make_submission(), make_submission()], **whole)
        again = send([make_submission(), make_submission()], **whole)
        assert (first.replayed, again.replayed) == (False, True)
        assert again.batch == first.batch
        assert Job.objects.count() == 2

    def test_the_key_with_another_payload_is_refused(
        self, send: Send, make_submission: MakeSubmission
    ) -> None:
        send([make_submission()], idempotency_key="k", payload_digest="p" * 64)
        with pytest.raises(IdempotencyKeyReused):
            send([make_submission()], idempotency_key="k", payload_digest="q" * 64)
        assert Job.objects.count() == 1

    def test_the_key_of_another_tenant_names_nothing_here(
        self, send: Send, make_submission: MakeSubmission, other_tenant: Tenant
    ) -> None:
        send([make_submission()], idempotency_key="k", payload_digest="p" * 64)
        known = batches.replay(
            tenant_id=other_tenant.id, idempotency_key="k", payload_digest="p" * 64
        )
        assert known is None

    def test_an_items_key_is_that_of_a_single_submit(
        self, send: Send, make_submission: MakeSubmission, make_job: MakeJob
    ) -> None:
        single = make_job(idempotency_key="a")
        first = send([make_submission(idempotency_key=key) for key in ("a", "b", "c")])
        assert ids(first)[0] == single
        assert make_job(idempotency_key="b") == ids(first)[1]
        assert ids(send([make_submission(idempotency_key=key) for key in "cba"])) == [
            *reversed(ids(first))
        ]
        assert Job.objects.count() == 3

    def test_an_items_key_with_another_payload_is_refused_for_that_item(
        self, send: Send, make_submission: MakeSubmission, make_job: MakeJob
    ) -> None:
        make_job(idempotency_key="a")
        other = make_submission(idempotency_key="a", payload_digest="o" * 64)
        assert kinds(send([other, make_submission()])) == [IdempotencyKeyReused, Submitted]

    def test_a_key_repeated_inside_a_batch_gives_the_same_job_twice(
        self, send: Send, make_submission: MakeSubmission
    ) -> None:
        # A random seed makes each try another call; the key says that it is none.
        first, again = ids(send([make_submission(idempotency_key="k") for _ in range(2)]))
        assert first == again == Job.objects.get().id

    def test_a_key_repeated_with_another_payload_belongs_to_the_first(
        self, send: Send, make_submission: MakeSubmission
    ) -> None:
        calls = [
            make_submission(idempotency_key="k", payload_digest=each * 64, fingerprint=each * 64)
            for each in "ba"
        ]
        assert kinds(send(calls)) == [Submitted, IdempotencyKeyReused]
        assert Job.objects.get().fingerprint == "b" * 64


class TestEqualCalls:
    def test_inside_a_batch_they_share_the_run_of_the_first(
        self, send: Send, make_submission: MakeSubmission
    ) -> None:
        first, *rest = send(make_submission(fingerprint="e" * 64) for _ in range(4)).outcomes
        assert isinstance(first, Submitted)
        assert first.is_new
        assert {each.coalesced_with for each in rest} == {first.job_id}  # type: ignore[union-attr]  # all accepted
        assert Job.objects.filter(attached_to=first.job_id).count() == 3

    def test_one_that_was_answered_before_is_answered_at_once(
        self, send: Send, make_job: MakeJob, make_submission: MakeSubmission, revision: Revision
    ) -> None:
        run = make_job(fingerprint="e" * 64)
        (claimed,) = services.claim(revision_id=revision.id, owner="w1")
        services.finish(claimed.fence, result={"x": 1})
        hit, new = send([make_submission(fingerprint="e" * 64), make_submission()]).outcomes
        assert isinstance(hit, Submitted)
        assert (hit.state, hit.cache_of) == ("succeeded", run)
        assert isinstance(new, Submitted)
        assert new.is_new

    def test_only_jobs_of_their_own_have_tickets(
        self,
        send: Send,
        make_submission: MakeSubmission,
        sent: list[str],
        django_capture_on_commit_callbacks: Callable[..., Any],
    ) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            send(make_submission(fingerprint="e" * 64) for _ in range(4))
        assert len(sent) == 1

    def test_with_no_cache_each_is_computed(
        self, send: Send, make_submission: MakeSubmission
    ) -> None:
        send(make_submission(fingerprint="e" * 64, shared=False) for _ in range(3))
        assert Job.objects.filter(attached_to=None).count() == 3


class TestLimits:
    @pytest.mark.parametrize("of_model", [False, True], ids=["tenant", "model"])
    @pytest.mark.parametrize(
        ("limits", "room"),
        [
            ({"waiting": 7}, 7),
            ({"requests_per_minute": 4}, 4),
            ({"gpu_seconds_day": 100}, 3),
            ({"gpu_seconds_month": 100, "waiting": 50}, 3),
        ],
        ids=str,
    )
    def test_the_first_ones_are_accepted_while_there_is_room(
        self,
        send: Send,
        make_submission: MakeSubmission,
        limit: Limit,
        revision: Revision,
        limits: dict[str, int],
        room: int,
        *,
        of_model: bool,
    ) -> None:
        limit(model=revision.model if of_model else None, **limits)
        accepted = send(make_submission(estimate_gpu_s=30.0) for _ in range(30))
        assert kinds(accepted) == [Submitted] * room + [QuotaExceeded] * (30 - room)
        assert Job.objects.count() == room
        problem = accepted.batch.refusals["29"]
        assert problem["status"] == 429
        assert problem["limit"]["name"] in limits
        assert problem["limit"]["allowed"] == limits[problem["limit"]["name"]]
        assert problem["retry_after_s"] >= 1

    def test_jobs_that_were_there_leave_less_room(
        self, send: Send, make_job: MakeJob, make_submission: MakeSubmission, limit: Limit
    ) -> None:
        limit(waiting=5)
        for _ in range(3):
            make_job()
        assert kinds(send(make_submission() for _ in range(4)))[2:] == [QuotaExceeded] * 2
        assert Job.objects.count() == 5

    def test_a_limit_over_all_models_counts_the_jobs_of_each(
        self,
        send: Send,
        make_submission: MakeSubmission,
        limit: Limit,
        revision: Revision,
        other_revision: Revision,
    ) -> None:
        limit(waiting=5)
        limit(model=other_revision.model, waiting=1)
        both = [{}, {"revision_id": other_revision.id, "model_id": other_revision.model_id}]
        accepted = send(make_submission(**both[n % 2]) for n in range(12))
        assert Job.objects.filter(revision=other_revision).count() == 1
        assert Job.objects.filter(revision=revision).count() == 4
        assert kinds(accepted).count(QuotaExceeded) == 7

    def test_answers_that_are_there_leave_the_room_to_the_others(
        self, send: Send, make_job: MakeJob, make_submission: MakeSubmission, limit: Limit,
        revision: Revision,
    ) -> None:  # fmt: skip
        make_job(fingerprint="e" * 64)
        (claimed,) = services.claim(revision_id=revision.id, owner="w1")
        services.finish(claimed.fence, result={})
        limit(waiting=3)
        hits = [make_submission(fingerprint="e" * 64) for _ in range(5)]
        accepted = send([*hits, *(make_submission() for _ in range(4))])
        assert kinds(accepted) == [Submitted] * 8 + [QuotaExceeded]
        assert Job.objects.filter(state="queued").count() == 3

    def test_what_cannot_fit_is_refused_for_that_item(
        self, send: Send, make_submission: MakeSubmission, limit: Limit
    ) -> None:
        limit(input_bytes=20)
        large = make_submission(inputs={"echo": "x" * 30})
        assert kinds(send([large, make_submission()])) == [QuotaForbids, Submitted]

    def test_a_call_that_keeps_failing_is_refused_for_that_item(
        self, send: Send, make_submission: MakeSubmission, owner_of_jobs: Tenant
    ) -> None:
        FailingCall.objects.create(
            tenant=owner_of_jobs, fingerprint="e" * 64, failures=6, first_error={},
            last_at=database_now(),
        )  # fmt: skip
        calls = [make_submission(fingerprint="e" * 64), make_submission()]
        assert kinds(send(calls)) == [RepeatFailure, Submitted]

    def test_when_there_is_room_for_none_nothing_is_kept_and_the_key_is_free(
        self, send: Send, make_submission: MakeSubmission, limit: Limit
    ) -> None:
        limit(waiting=0)
        with pytest.raises(QuotaExceeded):
            send([make_submission(), make_submission()], idempotency_key="k")
        assert not Batch.objects.exists()
        limit(waiting=2)
        assert kinds(send([make_submission()], idempotency_key="k")) == [Submitted]

    def test_tickets_are_sent_for_as_many_as_may_run(
        self,
        send: Send,
        make_submission: MakeSubmission,
        limit: Limit,
        sent: list[str],
        django_capture_on_commit_callbacks: Callable[..., Any],
    ) -> None:
        limit(running=2)
        with django_capture_on_commit_callbacks(execute=True):
            send(make_submission() for _ in range(10))
        assert len(sent) == 2


def test_a_batch_of_new_jobs_takes_the_same_few_statements_however_many_they_are(
    send: Send,
    make_submission: MakeSubmission,
    limit: Limit,
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    limit(waiting=1000, requests_per_minute=1000)
    # Savepoint and release, the batch, what fails, the count, the line, jobs, events; the clock.
    for size in (2, 50):
        calls = [make_submission() for _ in range(size)]
        with django_assert_max_num_queries(9):
            send(calls)


def test_files_in_the_inputs_are_linked(
    send: Send, make_submission: MakeSubmission, owner_of_jobs: Tenant
) -> None:
    file = upload(owner_of_jobs, b"an input")
    send(make_submission(artifacts=[("/structure", file.id)]) for _ in range(3))
    assert JobArtifact.objects.filter(artifact_id=file.id, name="/structure").count() == 3


def test_nothing_of_a_batch_is_kept_when_its_transaction_ends_early(
    send: Send, make_submission: MakeSubmission, sent: list[str]
) -> None:
    def submit_and_die() -> None:
        with transaction.atomic():
            send([make_submission()], idempotency_key="k")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        submit_and_die()
    assert (Batch.objects.count(), Job.objects.count(), sent) == (0, 0, [])


class TestCancel:
    def test_all_that_have_not_ended_end(
        self, send: Send, make_submission: MakeSubmission, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        batch = send(make_submission() for _ in range(3)).batch
        done, _running = services.claim(revision_id=revision.id, owner="w1", limit=2)
        services.finish(done.fence, result={})
        for _ in range(2):
            batches.cancel(tenant_id=owner_of_jobs.id, batch_id=batch.id)
        states = list(Job.objects.order_by("id").values_list("state", "cancel_requested"))
        assert states == [("succeeded", False), ("running", True), ("cancelled", False)]

    def test_jobs_that_share_a_run_end_without_taking_it_over(
        self, send: Send, make_submission: MakeSubmission, owner_of_jobs: Tenant
    ) -> None:
        batch = send(make_submission(fingerprint="e" * 64) for _ in range(3)).batch
        batches.cancel(tenant_id=owner_of_jobs.id, batch_id=batch.id)
        assert set(Job.objects.values_list("state", flat=True)) == {"cancelled"}
        assert not Event.objects.filter(kind="promoted").exists()

    def test_another_tenants_batch_is_not_there(
        self, send: Send, make_submission: MakeSubmission, other_tenant: Tenant
    ) -> None:
        batch = send([make_submission()]).batch
        with pytest.raises(BatchNotFound):
            batches.cancel(tenant_id=other_tenant.id, batch_id=batch.id)
        assert Job.objects.get().state == "queued"

    def test_a_job_that_was_removed_is_nobodys_trouble(
        self, send: Send, make_submission: MakeSubmission, owner_of_jobs: Tenant
    ) -> None:
        batch = send([make_submission(), make_submission()]).batch
        Job.objects.filter(id=batch.jobs[1]).delete()
        batches.cancel(tenant_id=owner_of_jobs.id, batch_id=batch.id)
        assert Job.objects.get().state == "cancelled"


class TestRetention:
    def test_a_batch_goes_with_the_last_of_its_jobs(
        self, send: Send, make_submission: MakeSubmission, revision: Revision
    ) -> None:
        send([make_submission(), InvalidInput(), make_submission()])
        later = database_now() + timedelta(days=40)
        (first,) = services.claim(revision_id=revision.id, owner="w1")
        services.finish(first.fence, result={})
        assert clean(now=later) == Removed(jobs=1)  # the other one waits
        (second,) = services.claim(revision_id=revision.id, owner="w1")
        services.finish(second.fence, result={})
        assert clean(now=later) == Removed(jobs=1, batches=1)
        assert not Batch.objects.exists()

    def test_one_whose_items_were_all_refused_goes_by_its_age(self, send: Send) -> None:
        send([InvalidInput()])
        assert clean(now=database_now() + timedelta(days=29)).batches == 0
        assert clean(now=database_now() + timedelta(days=31)).batches == 1

    def test_its_key_may_name_another_batch_after_a_week(
        self, send: Send, make_submission: MakeSubmission
    ) -> None:
        first = send([make_submission()], idempotency_key="k", payload_digest="p" * 64)
        assert clean(now=database_now() + timedelta(days=8)) == Removed(keys=1)
        again = send([make_submission()], idempotency_key="k", payload_digest="q" * 64)
        assert again.batch.id != first.batch.id


def test_a_batch_goes_with_its_tenant(
    send: Send, make_submission: MakeSubmission, owner_of_jobs: Tenant
) -> None:
    send([make_submission()])
    owner_of_jobs.delete()
    assert not Batch.objects.exists()
    connection.check_constraints()
