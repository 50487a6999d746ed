"""From the outbox to endpoints: who hears of what, and what the message says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from foldline.errors import job_error
from foldline.ids import uuid7
from foldline.jobs.models import Job, Outbox
from foldline.notify import endpoints, messages
from foldline.notify.models import Delivery
from foldline.notify.spreading import spread
from foldline.tenants.models import Tenant
from tests.at_once import at_once
from tests.foldline.jobs.test_sharing_races import who_wait_for_a_lock
from tests.foldline.notify.conftest import Register
from tests.worker_process import wait_until

pytestmark = pytest.mark.django_db

EndJob = Callable[..., UUID]
A, B = "https://a.example.com/", "https://b.example.com/"


def heard() -> set[tuple[str, UUID | None]]:
    return {(each.endpoint.url, each.job_id) for each in Delivery.objects.all()}


def test_one_that_hears_of_all_jobs_and_one_that_is_named(
    register: Register, end_job: EndJob
) -> None:
    register(A)
    named = register(B, all_jobs=False)
    first, second = end_job(), end_job(webhook=named.id)
    assert spread() == 2
    assert heard() == {(A, first), (A, second), (B, second)}
    assert not Outbox.objects.exists()
    assert spread() == 0


@pytest.mark.django_db(transaction=True)
def test_one_that_is_disabled_at_this_moment_gets_nothing(
    register: Register, end_job: EndJob
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite lets one writer in at a time")
    endpoint, disabled = register(A), threading.Event()
    end_job()

    def disable() -> None:
        with transaction.atomic():
            endpoints.disable(endpoint.id, reason="broken")
            disabled.set()
            wait_until(who_wait_for_a_lock, within_s=60, what="the round waits")

    def tell() -> int:
        assert disabled.wait(60)
        return spread()

    assert at_once([disable, tell]) == [None, 1]
    assert Delivery.objects.get().state == "dropped"


def test_a_round_asks_for_endpoints_once_however_many_ends_it_tells(
    register: Register, end_job: EndJob, other_tenant: Tenant
) -> None:
    named = register(B, all_jobs=False)
    register(A)
    register(A, of=other_tenant)
    end_job()
    with CaptureQueriesContext(connection) as one:
        spread()
    Delivery.objects.all().delete()
    mine = [end_job(webhook=named.id) for _ in range(5)]
    theirs = [end_job(of=other_tenant) for _ in range(5)]
    with CaptureQueriesContext(connection) as ten:
        assert spread() == 10
    assert len(ten) == len(one)
    assert heard() == {
        *((url, job) for job in mine for url in (A, B)),
        *((A, job) for job in theirs),
    }
    assert Delivery.objects.count() == 15


def test_the_event_is_the_same_for_all_who_hear_of_it(register: Register, end_job: EndJob) -> None:
    register(A)
    register(B)
    end_job()
    spread()
    first, second = Delivery.objects.all()
    assert (first.event, first.body) == (second.event, second.body)


def test_an_endpoint_hears_only_of_the_events_it_chose(register: Register, end_job: EndJob) -> None:
    register(A, events=["job.succeeded"])
    register(B, events=["job.cancelled", "job.failed"])
    job = end_job()
    spread()
    assert heard() == {(B, job)}


def test_nobody_hears_of_anothers_jobs(
    register: Register, end_job: EndJob, other_tenant: Tenant
) -> None:
    theirs = register(A, of=other_tenant)
    end_job(webhook=theirs.id)
    assert spread() == 1
    assert heard() == set()


def test_what_an_endpoint_missed_while_it_was_disabled_is_dropped_in_words(
    register: Register, end_job: EndJob
) -> None:
    endpoint = register(A)
    end_job()
    endpoints.disable(endpoint.id, reason="broken")
    spread()
    missed = Delivery.objects.get()
    assert (missed.state, missed.note) == ("dropped", "The endpoint was disabled.")
    assert missed.next_at is None


def test_a_job_that_named_an_endpoint_that_is_gone_is_dropped_in_words(
    register: Register, end_job: EndJob
) -> None:
    endpoint = register(A, all_jobs=False)
    end_job(webhook=endpoint.id)
    endpoints.delete(endpoint.id)
    spread()
    missed = Delivery.objects.get()
    assert (missed.state, missed.note) == ("dropped", "The endpoint was deleted.")


def test_a_spreading_that_breaks_off_loses_nothing(
    register: Register, end_job: EndJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making the deliveries and taking the rows away."""
    register(A)
    job = end_job()
    with monkeypatch.context() as broken:
        broken.setattr("django.db.models.query.QuerySet.delete", _crash)
        with pytest.raises(OperationalError):
            spread()
    assert (Outbox.objects.count(), Delivery.objects.count()) == (1, 0)
    spread()
    assert heard() == {(A, job)}


def _crash(*_: object) -> None:
    raise OperationalError("the database went away")


class TestBody:
    def test_it_says_which_job_ended_how_and_where_the_rest_is(
        self, register: Register, end_job: EndJob, settings: Settings
    ) -> None:
        settings.BASE_URL = "https://foldline.example.com"
        register(A)
        job = Job.objects.get(id=end_job(session="round-1"))
        spread()
        said = json.loads(Delivery.objects.get().body)
        assert job.finished_at is not None
        here = f"https://foldline.example.com/v1/jobs/{job.id}"
        stamp = job.finished_at.strftime("%Y-%m-%dT%H:%M:%S.")
        assert said["timestamp"].startswith(stamp)
        assert said["timestamp"].endswith("Z")
        del said["timestamp"]
        assert said == {
            "type": "job.cancelled",
            "data": {
                "id": str(job.id),
                "model": "toy",
                "state": "cancelled",
                "session": "round-1",
                "error": "cancelled",
                "redrive_of": None,
                "urls": {"self": here, "result": f"{here}/result"},
            },
        }

    def test_it_holds_no_input_and_no_result_and_is_small(self, end_job: EndJob) -> None:
        job = Job.objects.select_related("model").get(
            id=end_job(session="s" * 120, inputs={"sequence": "SECRETSEQ" * 10_000})
        )
        job.state, job.result = "failed", {"pdb": "SECRETPDB" * 10_000}
        job.error = job_error("model_error", "SECRETWORDS" * 1000, traceback="SECRETTRACE")
        body = messages.job_ended(job)
        assert len(body.encode()) < 2000
        assert "SECRET" not in body
        assert json.loads(body)["data"]["error"] == "model_error"


def test_the_events_to_choose_from_are_the_ends_of_jobs() -> None:
    assert messages.EVENTS == ("job.cancelled", "job.expired", "job.failed", "job.succeeded")


def test_an_event_is_sent_to_an_endpoint_once(register: Register, end_job: EndJob) -> None:
    register(A)
    end_job()
    spread()
    twice = Delivery.objects.get()
    twice.pk = uuid7()
    with pytest.raises(IntegrityError):
        twice.save(force_insert=True)
