"""Every attempt is read once, also one that is committed after later ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction

from foldline.clock import database_now
from foldline.forecasts.history import GAP_LOOKS, OVERLAP, History
from foldline.jobs.models import Attempt, Job
from tests.foldline.forecasts.conftest import MakeJob
from tests.worker_process import wait_until

Attempted = Callable[..., Attempt]


@pytest.fixture
def attempted(make_job: MakeJob) -> Attempted:
    """An attempt that has succeeded after ten seconds, of a job of its own."""

    def make(**changes: object) -> Attempt:
        return attempt_of(make_job(), **changes)

    return make


def attempt_of(job: UUID, **changes: object) -> Attempt:
    now = database_now()
    fields: dict[str, object] = {
        "number": 1,
        "worker": "w1",
        "outcome": "succeeded",
        "gpu_seconds": 10.0,
    }
    return Attempt.objects.create(
        **{
            **fields,
            "job_id": job,
            "started_at": now - timedelta(seconds=10),
            "ended_at": now,
            **changes,
        }
    )


def known(history: History) -> int:
    [model_id] = Job.objects.values_list("model_id", flat=True).distinct()
    return history.times(model_id).wall.model.count


@pytest.mark.django_db
def test_an_attempt_that_comes_after_later_ones_is_read_once(attempted: Attempted) -> None:
    history = History()
    first = attempted(id=100)
    history.begin()
    attempted(id=104)
    assert [run.id for run in history.refresh()] == [104]
    attempted(id=102), attempted(id=90)
    assert [run.id for run in history.refresh()] == [90, 102]
    assert history.refresh() == []
    assert known(history) == 4
    assert first.id == 100


@pytest.mark.django_db
def test_an_attempt_that_never_comes_is_not_asked_for_for_ever(attempted: Attempted) -> None:
    history = History()
    attempted(id=1000)
    history.begin()
    attempted(id=1000 + 2 * OVERLAP)
    history.refresh()
    assert len(history._gaps) < 2 * OVERLAP
    for _ in range(GAP_LOOKS + 1):
        history.refresh()
    assert history._gaps == {}


@pytest.mark.django_db
def test_an_open_attempt_is_learnt_from_when_it_ends_and_is_new_only_once(
    attempted: Attempted,
) -> None:
    history = History()
    history.begin()
    run = attempted(ended_at=None, outcome="")
    assert [each.id for each in history.refresh()] == [run.id]
    assert known(history) == 0
    Attempt.objects.filter(id=run.id).update(ended_at=database_now(), outcome="succeeded")
    assert history.refresh() == []
    assert known(history) == 1


@pytest.mark.django_db(transaction=True)
def test_an_attempt_that_is_committed_late_is_not_skipped(
    attempted: Attempted, make_job: MakeJob
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite commits in the order of its ids")
    history = History()
    attempted()
    history.begin()
    job = make_job()
    begun, go_on = threading.Event(), threading.Event()

    def commit_late() -> None:
        try:
            with transaction.atomic():
                attempt_of(job)
                begun.set()
                go_on.wait(60)
        finally:
            connection.close()

    late = threading.Thread(target=commit_late)
    late.start()
    try:
        wait_until(begun.is_set)
        attempted()
        assert len(history.refresh()) == 1
    finally:
        go_on.set()
        late.join()
    assert [run.job_id for run in history.refresh()] == [job]
    assert known(history) == 3
