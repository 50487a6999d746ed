"""Two sessions at the same moment. Only PostgreSQL has them: SQLite lets one writer in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from foldline.catalog.models import Revision
from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.claims import Fence
from foldline.jobs.models import Event, Job
from tests.worker_process import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

MakeJob = Callable[..., UUID]


@pytest.fixture(autouse=True)
def _sessions() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite lets one writer in at a time")


@pytest.fixture
def run(make_job: MakeJob, revision: Revision) -> tuple[Fence, list[UUID]]:
    """A run that computes, and the two jobs attached to it."""
    equal = {"fingerprint": "e" * 64}
    _, *attached = (make_job(**equal) for _ in range(3))
    (claimed,) = services.claim(revision_id=revision.id, owner="w1")
    assert Job.objects.filter(attached_to=claimed.fence.job_id).count() == len(attached)
    return claimed.fence, attached


@contextmanager
def about_to_be_cancelled(job_id: UUID) -> Iterator[None]:
    """Another session has cancelled the job, and commits once this one waits for it."""
    tenant_id = Job.objects.values_list("tenant_id", flat=True).get(id=job_id)
    cancelled = threading.Event()

    def cancel() -> None:
        with transaction.atomic():
            services.cancel(tenant_id=tenant_id, job_id=job_id)
            cancelled.set()
            wait_until(who_wait_for_a_lock, what="the other session waits")
        connection.close()

    other = threading.Thread(target=cancel)
    other.start()
    assert cancelled.wait(60)
    try:
        yield
    finally:
        other.join()


def who_wait_for_a_lock() -> int:
    """The number of sessions."""
    with connection.cursor() as cursor:
        # Else who connects later is not seen until this transaction ends.
        cursor.execute("select pg_stat_clear_snapshot()")
        cursor.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


def ends_of(job_id: UUID) -> list[str]:
    kinds = Event.objects.filter(job_id=job_id).order_by("sequence").values_list("kind", flat=True)
    return [kind for kind in kinds if kind != "queued"]


@pytest.mark.parametrize(
    "end",
    [
        lambda fence: services.finish(fence, result={}),
        lambda fence: services.fail(fence, error=job_error("model_error")),
    ],
    ids=["finish", "fail"],
)
def test_an_attached_job_that_is_cancelled_as_its_run_ends_has_one_end(
    run: tuple[Fence, list[UUID]], end: Callable[[Fence], Any]
) -> None:
    fence, (cancelled, _) = run
    with about_to_be_cancelled(cancelled):
        end(fence)
    assert ends_of(cancelled) == ["cancelled"]
    assert Job.objects.get(id=cancelled).state == "cancelled"


def test_a_job_that_is_cancelled_as_it_is_promoted_is_no_run_for_the_others(
    run: tuple[Fence, list[UUID]],
) -> None:
    fence, (cancelled, left) = run
    with about_to_be_cancelled(cancelled):
        services.fail(fence, error=job_error("deadline_exceeded"))
    remaining = Job.objects.get(id=left)
    assert (remaining.state, remaining.attached_to_id) == ("queued", None)
