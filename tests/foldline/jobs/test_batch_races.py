"""Batches that come at the same moment, beside each other and beside single submits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction

from foldline.catalog.models import Revision
from foldline.errors import IdempotencyKeyReused, QuotaExceeded
from foldline.jobs import batches, services
from foldline.jobs.admission import Submission, Submitted
from foldline.jobs.batches import BatchSubmission, SubmittedBatch
from foldline.jobs.models import Batch, Event, Job
from foldline.tenants.models import Tenant
from tests.at_once import at_once
from tests.foldline.jobs.test_sharing_races import who_wait_for_a_lock
from tests.worker_process import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sent")]

MakeSubmission = Callable[..., Submission]
Limit = Callable[..., None]
SESSIONS, OF_BATCH = 8, 10


@pytest.fixture
def batch_of(owner_of_jobs: Tenant) -> Callable[..., Callable[[], SubmittedBatch]]:
    def make(calls: Sequence[Submission], **whole: Any) -> Callable[[], SubmittedBatch]:
        call = BatchSubmission(tenant_id=owner_of_jobs.id, items=calls, **whole)
        return partial(batches.submit, call)

    return make


BatchOf = Callable[..., Callable[[], SubmittedBatch]]


def test_of_many_first_uses_of_one_key_one_makes_the_batch_and_its_jobs(
    make_submission: MakeSubmission, batch_of: BatchOf
) -> None:
    tries = [
        batch_of([make_submission() for _ in range(OF_BATCH)], idempotency_key="k")
        for _ in range(SESSIONS)
    ]
    told = at_once(tries)
    assert [each.replayed for each in told].count(False) == 1, told
    assert {each.batch.id for each in told} == {Batch.objects.get().id}
    assert Job.objects.count() == OF_BATCH
    assert Event.objects.count() == OF_BATCH


def test_of_two_payloads_with_one_key_one_is_refused(
    make_submission: MakeSubmission, batch_of: BatchOf
) -> None:
    tries = [
        batch_of([make_submission()], idempotency_key="k", payload_digest=each * 64)
        for each in "ab"
    ]
    told = at_once(tries)
    assert {type(each) for each in told} == {SubmittedBatch, IdempotencyKeyReused}
    assert Job.objects.count() == 1


def test_a_key_of_the_whole_takes_its_places_once(
    make_submission: MakeSubmission, batch_of: BatchOf, limit: Limit
) -> None:
    limit(waiting=OF_BATCH)
    tries = [
        batch_of([make_submission() for _ in range(OF_BATCH)], idempotency_key="k")
        for _ in range(SESSIONS)
    ]
    told = at_once(tries)
    assert not [each for each in told if isinstance(each, Exception)]
    assert Job.objects.count() == OF_BATCH


def test_item_keys_in_any_order_and_beside_single_submits_make_one_job_each(
    make_submission: MakeSubmission, batch_of: BatchOf
) -> None:
    """In opposite orders they would wait for each other."""
    keys = [f"k{n}" for n in range(OF_BATCH)]

    def calls(order: Sequence[str]) -> list[Submission]:
        return [make_submission(idempotency_key=key) for key in order]

    orders = [keys[:: (-1) ** n] for n in range(SESSIONS)]
    together = [batch_of(calls(order)) for order in orders]
    alone = [partial(services.submit, call) for call in calls(keys)]
    told = at_once([*together, *alone])
    assert not [each for each in told if isinstance(each, Exception)]
    by_key = dict(Job.objects.values_list("idempotency_key", "id"))
    assert len(by_key) == Job.objects.count() == OF_BATCH
    for each, order in zip(told[:SESSIONS], orders, strict=True):
        assert [outcome.job_id for outcome in each.outcomes] == [by_key[key] for key in order]


def test_equal_calls_of_many_batches_share_one_run(
    make_submission: MakeSubmission, batch_of: BatchOf
) -> None:
    prints = [f"{n:064d}" for n in range(OF_BATCH)]
    tries = [
        batch_of([make_submission(fingerprint=each) for each in prints[:: (-1) ** n]])
        for n in range(SESSIONS)
    ]
    told = at_once(tries)
    assert not [each for each in told if isinstance(each, Exception)]
    assert Job.objects.count() == SESSIONS * OF_BATCH
    runs = Job.objects.filter(attached_to=None)
    assert sorted(runs.values_list("fingerprint", flat=True)) == prints


@pytest.mark.parametrize("of_model", [False, True], ids=["tenant", "model"])
@pytest.mark.parametrize(
    ("limits", "room"),
    [
        ({"waiting": 25}, 25),
        ({"requests_per_minute": 17}, 17),
        ({"gpu_seconds_day": 1000}, 33),
        ({"gpu_seconds_month": 1000, "running": 2}, 33),
    ],
    ids=str,
)
def test_nothing_of_a_quota_is_exceeded_at_any_commit(
    make_submission: MakeSubmission,
    batch_of: BatchOf,
    limit: Limit,
    revision: Revision,
    limits: dict[str, int],
    room: int,
    *,
    of_model: bool,
) -> None:
    limit(model=revision.model if of_model else None, **limits)
    calls = [[make_submission(estimate_gpu_s=30.0) for _ in range(OF_BATCH)] for _ in range(6)]
    alone = [make_submission(estimate_gpu_s=30.0) for _ in range(6)]
    counts: list[int] = []
    done = threading.Event()

    def watch() -> None:
        try:
            while not done.is_set():
                counts.append(Job.objects.count())
        finally:
            connection.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        told = at_once([*map(batch_of, calls), *(partial(services.submit, c) for c in alone)])
    finally:
        done.set()
        watcher.join()
    # Every place is taken, and never one more.
    assert Job.objects.count() == room, told
    assert max(counts, default=0) <= room
    # On a slow disk SQLite's one writer keeps somebody waiting too long: that one is told a 503.
    late = {OperationalError} if connection.vendor == "sqlite" else set()
    assert {type(each) for each in told} <= {SubmittedBatch, Submitted, QuotaExceeded, *late}


def test_batches_of_several_models_do_not_wait_for_each_other_in_a_ring(
    make_submission: MakeSubmission,
    batch_of: BatchOf,
    limit: Limit,
    revision: Revision,
    other_revision: Revision,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "TRIES", 1)
    for each in (other_revision, revision):
        limit(model=each.model, waiting=50)
    models = [{}, {"revision_id": other_revision.id, "model_id": other_revision.model_id}]

    def call(n: int) -> Submission:
        return make_submission(**models[n % 2])

    tries = [batch_of([call(n + lap) for lap in range(OF_BATCH)]) for n in range(SESSIONS)]
    alone = [partial(services.submit, call(n)) for n in range(4)]
    told = at_once([*tries, *alone])
    assert not [each for each in told if isinstance(each, Exception)]
    assert Job.objects.count() == SESSIONS * OF_BATCH + 4


def looks_for_rings_after(milliseconds: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"set deadlock_timeout = {milliseconds}")


def wait_now(number: int) -> bool:
    """Whether so many wait. Within a transaction PostgreSQL shows what it showed first, unless it
    is told."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_stat_clear_snapshot()")
    return who_wait_for_a_lock() == number


def test_one_that_the_database_ends_to_break_a_ring_is_tried_again(
    make_submission: MakeSubmission, batch_of: BatchOf
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite lets one writer in at a time")
    first, second, third = (make_submission(fingerprint=each * 64) for each in "123")

    def take_the_third_and_then_the_first() -> None:
        looks_for_rings_after(600_000)
        with transaction.atomic():
            services.accept(third)
            holds_third.set()
            wait_until(lambda: wait_now(1), what="the batch waits for the second")
            services.accept(first)

    def keep_the_second_until_both_wait() -> None:
        with transaction.atomic():
            services.accept(second)
            holds_second.set()
            wait_until(lambda: wait_now(2), what="the other one waits for the first")

    def send() -> SubmittedBatch:
        assert holds_second.wait(60)
        assert holds_third.wait(60)
        looks_for_rings_after(100)  # it closes the ring and finds it, and so it is ended
        return batch_of([first, second, third], idempotency_key="k")()

    holds_second, holds_third = threading.Event(), threading.Event()
    accepted, *others = told = at_once(
        [send, take_the_third_and_then_the_first, keep_the_second_until_both_wait]
    )
    assert others == [None, None], told
    assert [each.is_new for each in accepted.outcomes] == [False] * 3
    assert (Batch.objects.count(), Job.objects.count()) == (1, 6)


def test_a_batch_whose_item_another_commits_meanwhile_gives_that_job(
    make_submission: MakeSubmission, batch_of: BatchOf
) -> None:
    for lap in range(10):
        keyed = make_submission(idempotency_key=f"k{lap}")
        told = at_once([batch_of([make_submission(), keyed]), partial(services.submit, keyed)])
        accepted, single = told
        assert accepted.outcomes[1].job_id == single.job_id
    ids: set[UUID] = set(Job.objects.exclude(idempotency_key="").values_list("id", flat=True))
    assert len(ids) == 10
