"""`GET /v1/jobs/{id}?wait=n`."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from django.utils import timezone
from pytest_django import Settings

from foldline.api.outage import outage
from foldline.jobs import services
from foldline.numbers import MOST_WAIT_S
from foldline.tenants.models import ApiKey, Tenant
from foldline.tenants.services import revoke_key
from foldline.waiting import hearing, room
from tests.foldline.waiting.conftest import Callers, Worker, woken
from tests.redis_server import RedisServer
from tests.worker_process import wait_until


@pytest.fixture
def job(door: Callers) -> UUID:
    return door.new_job()


def cancel(tenant: Tenant, job_id: UUID) -> None:
    services.cancel(tenant_id=tenant.id, job_id=job_id)


@pytest.mark.usefixtures("only_news")
def test_it_answers_once_the_job_has_changed(door: Callers, job: UUID, worker: Worker) -> None:
    asked = door.poll(job)
    door.until_hearing()
    fence = worker.claim()
    running = woken(asked)
    assert (running.answer.status_code, running.body["state"]) == (200, "running")
    asked = door.poll(job)
    services.progress(fence, fraction=0.5, stage="fold")
    assert woken(asked).body["progress"]["fraction"] == 0.5
    asked = door.poll(job)
    services.finish(fence, result={"score": 1})
    ended = woken(asked)
    assert ended.body["state"] == "succeeded"
    assert "retry-after" not in ended.answer.headers


def test_without_a_change_it_answers_with_the_present_state_when_the_time_is_over(
    door: Callers, job: UUID
) -> None:
    asked = door.get(f"/v1/jobs/{job}?wait=1")
    assert (asked.answer.status_code, asked.body["state"]) == (200, "queued")
    assert 1 <= asked.seconds < MOST_WAIT_S
    assert int(asked.answer.headers["retry-after"]) >= 1


def test_of_a_job_that_has_ended_it_answers_at_once(
    door: Callers, job: UUID, tenant: Tenant
) -> None:
    cancel(tenant, job)
    ended = door.get(f"/v1/jobs/{job}?wait=50")
    assert (ended.body["state"], ended.seconds < MOST_WAIT_S) == ("cancelled", True)
    tag = ended.answer.headers["etag"]
    again = door.get(f"/v1/jobs/{job}?wait=50", If_None_Match=tag)
    assert (again.answer.status_code, again.seconds < MOST_WAIT_S) == (304, True)


def test_with_the_present_etag_it_waits_and_is_304_when_the_time_is_over(
    door: Callers, job: UUID
) -> None:
    tag = door.get(f"/v1/jobs/{job}").answer.headers["etag"]
    unchanged = door.get(f"/v1/jobs/{job}?wait=1", If_None_Match=tag)
    assert (unchanged.answer.status_code, unchanged.answer.content) == (304, b"")
    assert unchanged.answer.headers["etag"] == tag
    assert unchanged.seconds >= 1


def test_with_the_present_etag_it_answers_once_that_is_another(
    door: Callers, job: UUID, worker: Worker
) -> None:
    tag = door.get(f"/v1/jobs/{job}").answer.headers["etag"]
    asked = door.poll(job, If_None_Match=f'"other", W/{tag}')
    worker.claim()
    running = woken(asked)
    assert running.body["state"] == "running"
    assert running.answer.headers["etag"] != tag


def test_with_an_old_etag_it_answers_at_once(door: Callers, job: UUID) -> None:
    asked = door.get(f"/v1/jobs/{job}?wait=50", If_None_Match='"0123456789abcdef"')
    assert (asked.answer.status_code, asked.seconds < MOST_WAIT_S) == (200, True)


@pytest.mark.parametrize(
    "query",
    [
        *("wait=0", "wait=51", "wait=-1", "wait=1.5", "wait=", "wait=x", "wait=5&wait=6"),
        *("wait=٣", "wait=99999999999999999999", "wait=5&colour=red", "wait=%00"),
        *("wait=0050999999", "wait=" + "0001" * 2000),  # large behind their first digits
    ],
)
def test_a_wrong_wait_is_400(door: Callers, job: UUID, query: str) -> None:
    wrong = door.get(f"/v1/jobs/{job}?{query}")
    assert (wrong.answer.status_code, wrong.seconds < MOST_WAIT_S) == (400, True)
    assert wrong.body["code"] == "invalid_request"


@pytest.mark.parametrize("name", ["nonsense", "{}", "0" * 300, "..%2Fjobs", "%00"])
def test_a_foreign_and_a_garbled_id_answer_as_without_wait(
    door: Callers, job: UUID, other_key: str, name: str
) -> None:
    key = {"Authorization": f"Bearer {other_key}", "X_Request_ID": "same"}
    for path, wait in (("", "?wait=50"), ("/events", "")):
        missing = door.get(f"/v1/jobs/{uuid4()}{path}", **key)
        assert missing.answer.status_code == 404
        for each in (str(job), name):
            waited = door.get(f"/v1/jobs/{each}{path}{wait}", **key)
            plain = door.get(f"/v1/jobs/{each}{path}", **key)
            assert (waited.answer.status_code, waited.answer.content) == (
                plain.answer.status_code,
                plain.answer.content,
            )
        foreign = door.get(f"/v1/jobs/{job}{path}{wait}", **key)
        assert foreign.answer.content == missing.answer.content


def test_other_methods_do_not_wait(door: Callers, job: UUID) -> None:
    assert door.ask("HEAD", f"/v1/jobs/{job}?wait=50").seconds < MOST_WAIT_S
    refused = door.ask("POST", f"/v1/jobs/{job}?wait=50")
    assert (refused.answer.status_code, refused.seconds < MOST_WAIT_S) == (405, True)


def test_a_key_that_is_revoked_meanwhile_is_refused_within_five_seconds(
    door: Callers, job: UUID, tenant: Tenant
) -> None:
    assert room.KEYS_S <= 2  # and then it is read, not remembered
    asked = door.poll(job)
    revoke_key(ApiKey.objects.get(tenant=tenant))
    refused = woken(asked)
    assert (refused.answer.status_code, refused.body["code"]) == (401, "key_refused")


def test_a_key_that_another_process_revoked_is_not_taken_from_memory(
    door: Callers, job: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "KEYS_S", 0.05)
    asked = door.poll(job)
    ApiKey.objects.update(revoked_at=timezone.now())
    assert woken(asked).answer.status_code == 401


def test_a_wait_counts_as_one_poll(door: Callers, job: UUID, limit: Callable[..., None]) -> None:
    limit(polls_per_minute=2)
    door.get(f"/v1/jobs/{job}?wait=1")
    door.get(f"/v1/jobs/{job}?wait=1")
    third = door.get(f"/v1/jobs/{job}?wait=1")
    assert (third.answer.status_code, third.body["limit"]["name"]) == (429, "polls_per_minute")


def test_no_header_passes_for_a_poll_that_was_counted(
    door: Callers, job: UUID, limit: Callable[..., None]
) -> None:
    limit(polls_per_minute=1)
    forged = {"Foldline.Visit": "1", "foldline-visit": "1"}
    answers = [door.get(f"/v1/jobs/{job}", **forged).answer.status_code for _ in range(2)]
    assert answers == [200, 429]


def test_a_client_that_leaves_is_forgotten_at_once(door: Callers, job: UUID) -> None:
    with door.connection(f"/v1/jobs/{job}?wait=50"):
        door.until_waiting(1)
    door.until_forgotten()


@pytest.mark.usefixtures("only_news")
def test_a_follower_wakes_with_the_progress_and_the_answer_of_its_run(
    door: Callers, job: UUID, worker: Worker
) -> None:
    follower = door.new_job()
    assert door.get(f"/v1/jobs/{follower}").body["coalesced_with"] == str(job)
    fence = worker.claim()
    tag = door.get(f"/v1/jobs/{follower}").answer.headers["etag"]
    asked = door.poll(follower, If_None_Match=tag)
    door.until_hearing()
    services.progress(fence, fraction=0.25)
    assert woken(asked).body["progress"]["fraction"] == 0.25
    asked = door.poll(follower)
    services.finish(fence, result={})
    assert woken(asked).body["state"] == "succeeded"


@pytest.mark.usefixtures("only_news")
def test_a_follower_of_a_run_that_is_cancelled_wakes_with_its_heir(
    door: Callers, job: UUID, worker: Worker, tenant: Tenant
) -> None:
    heir, last = door.new_job(), door.new_job()
    fence = worker.claim()
    asked = [door.poll(each) for each in (heir, last)]
    door.until_hearing()
    cancel(tenant, job)
    told = [woken(each) for each in asked]
    assert [each.body["state"] for each in told] == ["running", "queued"]
    assert told[1].body["coalesced_with"] == str(heir)
    again = door.poll(last)
    services.progress(fence, fraction=0.75)  # the worker's writes are led to the heir
    assert woken(again).body["progress"]["fraction"] == 0.75


def test_many_who_wait_for_one_job_all_hear(door: Callers, job: UUID, worker: Worker) -> None:
    asked = [door.poll(job) for _ in range(20)]
    worker.claim()
    assert {woken(each).body["state"] for each in asked} == {"running"}


def test_a_tenant_that_waits_too_often_is_told_so(
    door: Callers, job: UUID, settings: Settings, tenant: Tenant, worker: Worker
) -> None:
    settings.MOST_WAITS_OF_TENANT = 2
    asked = [door.poll(job) for _ in range(2)]
    refused = door.get(f"/v1/jobs/{job}?wait=50")
    assert (refused.answer.status_code, refused.body["code"]) == (429, "too_many_waits")
    assert refused.answer.headers["retry-after"]
    assert refused.answer.headers["content-type"] == "application/problem+json"
    assert door.get(f"/v1/jobs/{job}").answer.status_code == 200
    cancel(tenant, job)
    assert {woken(each).body["state"] for each in asked} == {"cancelled"}


def test_a_full_room_is_503(door: Callers, job: UUID, settings: Settings, tenant: Tenant) -> None:
    settings.MOST_WAITS = 1
    asked = door.poll(job)
    refused = door.get(f"/v1/jobs/{job}?wait=50")
    assert (refused.answer.status_code, refused.body["code"]) == (503, "waiting_room_full")
    cancel(tenant, job)
    asked.result()


def test_all_who_wait_share_one_subscription(
    door: Callers, job: UUID, redis: RedisServer, tenant: Tenant
) -> None:
    asked = [door.poll(job) for _ in range(5)]
    door.until_hearing()
    with redis.client() as client:
        (channel,) = client.pubsub_numsub("foldline.news")
        assert channel[1] == 1
    cancel(tenant, job)
    for each in asked:
        woken(each)


def test_django_that_is_away_for_a_moment_ends_no_wait(
    door: Callers, job: UUID, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "SAFETY_S", 0.2)
    asked = door.poll(job)
    monkeypatch.setattr(outage, "_rest_until", time.monotonic() + 1)  # it answers 503
    cancel(tenant, job)
    told = woken(asked)
    assert (told.answer.status_code, told.body["state"]) == (200, "cancelled")


def test_a_redis_that_says_nothing_more_is_not_relied_on(
    door: Callers,
    job: UUID,
    redis: RedisServer,
    tenant: Tenant,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hearing, "PING_S", 0.5)
    asked = door.poll(job, seconds=MOST_WAIT_S)
    door.until_hearing()
    redis.freeze()
    try:
        wait_until(lambda: not door.room._hearing.up)
    finally:
        redis.thaw()
    door.until_hearing()
    cancel(tenant, job)
    assert woken(asked, wait_s=MOST_WAIT_S).body["state"] == "cancelled"
