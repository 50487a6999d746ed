"""`POST /v1/models/{model}/jobs` with `Prefer: wait=n`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest
from django.test import Client
from pytest_django import Settings

from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.models import Job
from foldline.numbers import MOST_WAIT_S
from foldline.tenants.models import ApiKey, Tenant
from foldline.tenants.services import revoke_key
from foldline.waiting.submits import preferred_wait
from tests.foldline.waiting.conftest import Callers, Timed, Worker, woken


def waiting(door: Callers, prefer: str = "wait=30", **headers: str) -> Future[Timed]:
    return door.meanwhile(lambda: door.submit(Prefer=prefer, **headers))


def test_a_result_that_comes_in_time_is_the_answer(door: Callers, worker: Worker) -> None:
    asked = waiting(door)
    services.finish(worker.claim(), result={"score": 1})
    answer = woken(asked)
    assert (answer.answer.status_code, answer.body["result"]) == (200, {"score": 1})
    assert answer.answer.headers["preference-applied"] == "wait=30"
    job = answer.body["job"]
    assert answer.answer.headers["location"] == f"/v1/jobs/{job}"
    assert "allow" not in answer.answer.headers  # of the address that it did not ask
    assert answer.body == door.get(f"/v1/jobs/{job}/result").body


def test_without_one_it_is_202_with_the_job_as_it_is_then(
    door: Callers, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker takes the ticket as soon as there is one.
    monkeypatch.setattr("foldline.jobs.tickets.send", lambda _queue, **_: bool(worker.claim()))
    answer = door.submit(Prefer="wait=1")
    assert (answer.answer.status_code, answer.body["state"]) == (202, "running")
    assert answer.seconds >= 1
    assert answer.answer.headers["preference-applied"] == "wait=1"
    assert answer.answer.headers["location"] == answer.body["urls"]["self"]
    assert int(answer.answer.headers["retry-after"]) >= 1


def test_a_failure_answers_as_the_result_would(door: Callers, worker: Worker) -> None:
    asked = waiting(door)
    services.fail(worker.claim(), error=job_error("model_error", "no luck"))
    answer = woken(asked)
    same = door.get(f"/v1/jobs/{Job.objects.get().id}/result", X_Request_ID="same")
    assert answer.answer.status_code == same.answer.status_code == 409
    assert answer.body | {"request_id": "same"} == same.body
    assert answer.answer.headers["content-type"] == "application/problem+json"


def test_an_answer_that_is_there_comes_at_once(door: Callers, worker: Worker) -> None:
    door.new_job()
    services.finish(worker.claim(), result={"score": 2})
    answer = door.submit(Prefer="wait=50")
    assert (answer.answer.status_code, answer.body["result"]) == (200, {"score": 2})
    assert answer.seconds < MOST_WAIT_S


def test_a_call_that_is_sent_twice_waits_for_the_same_job(door: Callers, worker: Worker) -> None:
    first = waiting(door, Idempotency_Key="once")
    second = waiting(door, Idempotency_Key="once")
    services.finish(worker.claim(), result={})
    answers = [woken(first), woken(second)]
    assert {answer.answer.status_code for answer in answers} == {200}
    assert len({answer.body["job"] for answer in answers}) == 1
    assert answers[1].answer.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("wait=10", 10),
        ("WAIT=10", 10),
        ('wait="10"', 10),
        ("respond-async, wait=10", 10),
        ("handling=lenient; foo, wait = 7 ; foo=bar", 7),
        ("wait=10, wait=20", 10),
        ("wait=60", 50),
        ("wait=999999999", 50),
        ("wait=0", None),
        ("wait", None),
        ("wait=", None),
        ("wait=x, wait=10", None),
        ("wait=-1", None),
        ("wait=1.5", None),
        ("wait=" + "9" * 30, None),
        ("respond-async", None),
        ("await=10", None),
        ("return=minimal", None),
        ("", None),
        (",,;=\xff", None),
    ],
)
def test_the_preference_is_read_as_rfc_7240_says(header: str, seconds: int | None) -> None:
    assert preferred_wait(header.encode("latin-1")) == seconds


@pytest.mark.parametrize("prefer", ["respond-async", "wait=0", "wait=soon", ""])
def test_a_preference_that_is_not_for_waiting_changes_nothing(door: Callers, prefer: str) -> None:
    answer = door.submit(Prefer=prefer)
    assert (answer.answer.status_code, answer.body["state"]) == (202, "queued")
    assert "preference-applied" not in answer.answer.headers


def test_a_refusal_comes_at_once_and_as_ever(door: Callers) -> None:
    for how in ({"sequence": "not a sequence"}, {"model": "nobody"}):
        waited, plain = (door.submit(**how, **more) for more in ({"Prefer": "wait=50"}, {}))
        assert waited.answer.status_code == plain.answer.status_code
        assert waited.body["code"] == plain.body["code"]
        assert "preference-applied" not in waited.answer.headers
    assert not Job.objects.exists()


def test_a_job_that_was_accepted_is_answered_so_when_its_key_is_revoked(
    door: Callers, tenant: Tenant
) -> None:
    asked = waiting(door)
    revoke_key(ApiKey.objects.get(tenant=tenant))
    answer = woken(asked)
    assert answer.answer.status_code == 202
    assert "preference-applied" not in answer.answer.headers


def test_a_key_that_may_not_read_does_not_wait(
    door: Callers, make_key: Callable[..., tuple[ApiKey, str]]
) -> None:
    key = make_key(scopes=["submit"])[1]
    answer = door.submit(Prefer="wait=50", Authorization=f"Bearer {key}")
    assert (answer.answer.status_code, answer.seconds < MOST_WAIT_S) == (202, True)


def test_who_waits_too_often_is_accepted_without_waiting(
    door: Callers, settings: Settings, worker: Worker
) -> None:
    settings.MOST_WAITS_OF_TENANT = 1
    asked = waiting(door)
    at_once = door.submit(Prefer="wait=50", sequence="EEE")
    assert (at_once.answer.status_code, at_once.seconds < MOST_WAIT_S) == (202, True)
    settings.MOST_WAITS = 1
    at_once = door.submit(Prefer="wait=50", sequence="EEEE")
    assert (at_once.answer.status_code, at_once.seconds < MOST_WAIT_S) == (202, True)
    services.finish(worker.claim(), result={})
    assert woken(asked).answer.status_code == 200


def test_it_counts_as_one_request_and_as_no_poll(
    door: Callers, worker: Worker, limit: Callable[..., None]
) -> None:
    limit(polls_per_minute=0, requests_per_minute=1)
    asked = waiting(door)
    services.finish(worker.claim(), result={})
    assert woken(asked).answer.status_code == 200
    assert door.submit().answer.status_code == 429


def test_a_client_that_leaves_loses_no_job(door: Callers, api: Client) -> None:
    body = b'{"inputs":{"sequence":"EVQ"}}'
    with door.connection("/v1/models/toy/jobs", body=body, headers="Prefer: wait=50\r\n"):
        door.until_waiting(1)
    assert Job.objects.get().state == "queued"
