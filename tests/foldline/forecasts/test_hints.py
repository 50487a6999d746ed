"""Which calls are announced, by how many jobs, and how soon they come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.forecasts.hints import Hint, hints
from foldline.forecasts.walker import Walker
from foldline.jobs import demand, services
from foldline.jobs.models import Job
from tests.foldline.forecasts.conftest import MakeJob, MakeWorker

pytestmark = pytest.mark.django_db


def announce(job: UUID, *models: str) -> UUID:
    Job.objects.filter(id=job).update(next_models=list(models))
    return job


def now() -> dict[str, Hint]:
    return dict(hints(now=database_now()))


@pytest.fixture
def run(make_job: MakeJob, revision: Revision) -> Callable[[], UUID]:
    """A job that runs."""

    def make() -> UUID:
        job = make_job()
        services.claim(revision_id=revision.id, owner="w1", limit=1)
        Job.objects.filter(id=job).update(state="running")
        return job

    return make


def test_a_running_job_announces_its_next_models(run: Callable[[], UUID]) -> None:
    announce(run(), "dock", "score", "dock")
    assert now() == {
        "dock": Hint(running=1, in_s=0.0),
        "score": Hint(running=1, in_s=0.0),
    }, "without a forecast it may end at any time"


def test_a_job_that_waits_announces_once_its_end_can_be_told(
    make_job: MakeJob, make_worker: MakeWorker, past: Callable[..., None]
) -> None:
    make_worker()
    past(5, seconds=30.0)
    announce(make_job(), "dock")
    assert now() == {}
    Walker().walk()
    hint = now()["dock"]
    assert (hint.running, hint.queued) == (0, 1)
    assert 15 <= hint.in_s <= 90


def test_the_first_of_several_says_when(
    run: Callable[[], UUID], make_job: MakeJob, make_worker: MakeWorker, past: Callable[..., None]
) -> None:
    make_worker()
    past(5, seconds=60.0)
    late = announce(run(), "dock")
    Job.objects.filter(id=late).update(started_at=database_now() - timedelta(seconds=50))
    announce(make_job(), "dock")
    Walker().walk()
    hint = now()["dock"]
    assert (hint.running, hint.queued) == (1, 1)
    assert hint.in_s < 40


def test_an_attached_job_announces_with_its_run(run: Callable[[], UUID], make_job: MakeJob) -> None:
    leader, follower = run(), announce(make_job(), "dock")
    Job.objects.filter(id=follower).update(attached_to=leader)
    assert now() == {"dock": Hint(running=1, in_s=0.0)}


def test_an_ended_job_announces_nothing(run: Callable[[], UUID]) -> None:
    Job.objects.filter(id=announce(run(), "dock")).update(state="succeeded")
    assert now() == {}


@pytest.mark.parametrize("nonsense", [[], "dock", [1, None], {"dock": 1}])
def test_nonsense_announces_nothing(run: Callable[[], UUID], nonsense: object) -> None:
    Job.objects.filter(id=run()).update(next_models=nonsense)
    assert now() == {}


def test_it_is_one_query_and_bounded(
    run: Callable[[], UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand, "MOST_ANNOUNCING", 3)
    for _ in range(5):
        announce(run(), "dock")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        found = demand.announcing()
        assert [job.next_models for job in found] == [["dock"]] * 3
        assert all((job.attached_to or job).input_size >= 0 for job in found)
    assert len(queries) == 1


def test_it_reads_the_index_of_open_jobs_and_not_the_table() -> None:
    with CaptureQueriesContext(connection) as queries:
        demand.announcing()
    if connection.vendor == "sqlite":  # PostgreSQL reads a table this small as a whole
        with connection.cursor() as cursor:
            cursor.execute(f"explain query plan {queries[0]['sql']}")
            told = " ".join(str(row) for row in cursor.fetchall())
        assert "USING INDEX job_open" in told, told
