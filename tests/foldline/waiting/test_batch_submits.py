"""`POST /v1/batches` with `Prefer: wait=n`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from pytest_django import Settings

from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.models import Batch, Job
from foldline.tenants.models import ApiKey, Tenant
from foldline.tenants.services import revoke_key
from tests.foldline.waiting.conftest import Callers, Timed, Worker

BROKEN = "not a sequence"
SOON_S = 30  # before a wait of 50 s is over, however busy the machine is


def send(door: Callers, *sequences: str, **headers: str) -> Timed:
    jobs = [{"model": "toy", "inputs": {"sequence": each}} for each in sequences]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return door.ask("POST", "/v1/batches", json={"jobs": jobs}, headers=named)


def waiting(door: Callers, *sequences: str, **headers: str) -> Future[Timed]:
    return door.meanwhile(lambda: send(door, *sequences, **{"Prefer": "wait=50", **headers}))


def states(body: dict[str, Any]) -> list[str]:
    return [each["job"]["state"] for each in body["jobs"] if each["job"]]


def test_when_all_have_ended_in_time_the_batch_is_the_answer(
    door: Callers, worker: Worker, tenant: Tenant
) -> None:
    asked = waiting(door, "E", "EE", BROKEN, "EEE")
    services.finish(worker.claim(), result={"score": 1})
    services.fail(worker.claim(), error=job_error("model_error", "no luck"))
    last = Job.objects.get(state="queued")
    assert not asked.done()
    services.cancel(tenant_id=tenant.id, job_id=last.id)
    answer = asked.result(SOON_S)
    assert (answer.answer.status_code, answer.body["state"]) == (200, "done")
    assert sorted(states(answer.body)) == ["cancelled", "failed", "succeeded"]
    assert answer.body["counts"]["refused"] == 1
    assert answer.answer.headers["preference-applied"] == "wait=50"
    here = answer.body["urls"]["self"]
    assert answer.answer.headers["location"] == here
    assert "retry-after" not in answer.answer.headers
    shown = door.get(here, X_Request_ID="same")
    assert {**answer.body, "jobs": []} == {**shown.body, "jobs": []}
    assert answer.answer.headers["etag"] == shown.answer.headers["etag"]


def test_else_it_is_202_with_the_batch_as_it_is_then(door: Callers, worker: Worker) -> None:
    asked = waiting(door, "E", "EE", Prefer="wait=1")
    services.finish(worker.claim(), result={})
    answer = asked.result(SOON_S)
    assert (answer.answer.status_code, answer.body["state"]) == (202, "open")
    assert sorted(states(answer.body)) == ["queued", "succeeded"]
    assert answer.seconds >= 1
    assert answer.answer.headers["preference-applied"] == "wait=1"
    assert answer.answer.headers["location"] == answer.body["urls"]["self"]
    assert int(answer.answer.headers["retry-after"]) >= 1


def test_when_nothing_is_left_to_wait_for_the_answer_comes_at_once(
    door: Callers, worker: Worker
) -> None:
    send(door, "E")
    services.finish(worker.claim(), result={})
    for sequences in (("E", BROKEN), (BROKEN,)):
        answer = send(door, *sequences, Prefer="wait=50")
        assert (answer.answer.status_code, answer.body["state"]) == (200, "done")
        assert answer.answer.headers["preference-applied"] == "wait=50"
        assert answer.seconds < SOON_S


def test_a_batch_that_is_sent_twice_is_the_same_one_for_both_who_wait(
    door: Callers, worker: Worker
) -> None:
    first = waiting(door, "E", Idempotency_Key="once")
    second = waiting(door, "E", Idempotency_Key="once")
    services.finish(worker.claim(), result={})
    answers = [first.result(SOON_S), second.result(SOON_S)]
    assert {answer.answer.status_code for answer in answers} == {200}
    assert {answer.body["id"] for answer in answers} == {str(Batch.objects.get().id)}
    assert "idempotency-replayed" not in answers[0].answer.headers
    assert answers[1].answer.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize("prefer", ["respond-async", "wait=0", "wait=soon", ""])
def test_a_preference_that_is_not_for_waiting_changes_nothing(door: Callers, prefer: str) -> None:
    answer = send(door, "E", Prefer=prefer)
    assert (answer.answer.status_code, answer.body["state"]) == (202, "open")
    assert "preference-applied" not in answer.answer.headers


def test_a_refusal_of_the_whole_comes_at_once_and_as_ever(
    door: Callers, limit: Callable[..., None]
) -> None:
    limit(waiting=0)
    for sequences, status in (((), 400), (("E",), 429)):
        waited = send(door, *sequences, Prefer="wait=50")
        plain = send(door, *sequences)
        assert waited.answer.status_code == plain.answer.status_code == status
        assert waited.body["code"] == plain.body["code"]
        assert "preference-applied" not in waited.answer.headers


def test_a_batch_that_was_accepted_is_answered_so_when_its_key_is_revoked(
    door: Callers, tenant: Tenant
) -> None:
    asked = waiting(door, "E")
    revoke_key(ApiKey.objects.get(tenant=tenant))
    answer = asked.result(SOON_S)
    assert (answer.answer.status_code, states(answer.body)) == (202, ["queued"])
    assert "preference-applied" not in answer.answer.headers


def test_a_key_that_may_not_read_does_not_wait(
    door: Callers, make_key: Callable[..., tuple[ApiKey, str]]
) -> None:
    key = make_key(scopes=["submit"])[1]
    answer = send(door, "E", Prefer="wait=50", Authorization=f"Bearer {key}")
    assert (answer.answer.status_code, answer.seconds < SOON_S) == (202, True)
    assert "preference-applied" not in answer.answer.headers


def test_a_batch_takes_one_seat_and_where_there_is_none_it_does_not_wait(
    door: Callers, settings: Settings, worker: Worker
) -> None:
    settings.MOST_WAITS_OF_TENANT = 1
    asked = waiting(door, "E", "EE")
    at_once = send(door, "EEE", Prefer="wait=50")
    assert (at_once.answer.status_code, at_once.seconds < SOON_S) == (202, True)
    for _ in range(3):
        services.finish(worker.claim(), result={})
    assert asked.result(SOON_S).answer.status_code == 200


def test_it_counts_as_one_request_and_as_no_poll(
    door: Callers, worker: Worker, limit: Callable[..., None]
) -> None:
    limit(polls_per_minute=0, requests_per_minute=1)
    asked = waiting(door, "E")
    services.finish(worker.claim(), result={})
    assert asked.result(SOON_S).answer.status_code == 200
