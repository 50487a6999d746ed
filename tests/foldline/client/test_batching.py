"""Batches: one request where the server knows them, one by one where it does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from foldline.client import Call, Refused, TimedOut
from tests.foldline.client.conftest import Clock
from tests.foldline.client.scripted import Says, Scripted

Connect = Callable[..., Any]

CALLS = [Call(model="sleepy", inputs={"n": n}, idempotency_key=f"k{n}") for n in range(3)]
UNKNOWN = Says(status=404, body={"code": "not_found"})


def job(name: str, state: str = "queued") -> dict[str, Any]:
    return {"id": name, "state": state, "model": "sleepy", "poll_after_s": 1}


def batch(*states: str) -> Says:
    jobs = [{"index": n, "job": job(f"j{n}", state)} for n, state in enumerate(states)]
    return Says(status=202, body={"id": "b1", "jobs": jobs, "poll_after_s": 1})


def test_a_batch_is_one_request_with_a_key_for_each_and_for_all(
    connect: Connect, script: Scripted
) -> None:
    script.will_say(Says(cut=True), batch("queued", "queued", "queued"))
    sent = connect(script.url).batch(CALLS, session="s")
    assert [item.job.id for item in sent.jobs] == ["j0", "j1", "j2"]
    first, again = script.asked
    assert first.body == again.body
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"]
    body = json.loads(first.body)
    assert body["session"] == "s"
    assert [each["idempotency_key"] for each in body["jobs"]] == ["k0", "k1", "k2"]


def test_it_is_followed_by_one_long_poll_after_the_other(
    connect: Connect, script: Scripted
) -> None:
    script.will_say(
        batch("queued", "queued"), batch("succeeded", "queued"), batch("succeeded", "failed")
    )
    client = connect(script.url)
    seen: list[int] = []
    done = client.follow(
        client.batch(CALLS[:2]), seen=lambda b: seen.append(sum(item.open for item in b.jobs))
    )
    assert [item.job.state for item in done.jobs] == ["succeeded", "failed"]
    assert seen == [2, 1, 0]
    assert script.paths[1:] == ["/v1/batches/b1?wait=any&timeout_s=45"] * 2


def test_a_server_that_answers_at_once_is_not_asked_all_the_time(
    connect: Connect, script: Scripted, clock: Clock
) -> None:
    script.will_say(batch("queued"), batch("queued"), batch("queued"), batch("succeeded"))
    client = connect(script.url)
    client.follow(client.batch(CALLS[:1]))
    assert len(script.asked) == 4
    assert clock.pauses == [1, 1]


def test_who_finds_no_seat_asks_without_waiting(connect: Connect, script: Scripted) -> None:
    full = Says(status=429, body={"code": "too_many_waits", "retryable": True})
    script.will_say(batch("queued"), full, batch("succeeded"))
    client = connect(script.url)
    client.follow(client.batch(CALLS[:1]))
    assert script.paths[-1] == "/v1/batches/b1"


def test_following_ends_in_time(connect: Connect, script: Scripted, clock: Clock) -> None:
    script.will_say(batch("queued"))
    client = connect(script.url)
    with pytest.raises(TimedOut):
        client.follow(client.batch(CALLS[:1]), timeout_s=1.2)
    assert script.paths[1] == "/v1/batches/b1?wait=any&timeout_s=1"
    assert sum(clock.pauses) == pytest.approx(1.2)


def test_a_server_without_batches_gets_the_calls_one_by_one(
    connect: Connect, script: Scripted
) -> None:
    script.will_say(
        UNKNOWN,
        Says(status=202, body=job("j0")),
        Says(status=422, body={"code": "invalid_input"}),
        Says(status=202, body=job("j2")),
        Says(body=job("j0", "succeeded")),
        Says(body=job("j2", "failed")),
    )
    client = connect(script.url)
    sent = client.batch(CALLS, session="s")
    assert [item.error.code if item.error else item.job.id for item in sent.jobs] == [
        "j0",
        "invalid_input",
        "j2",
    ]
    assert [each.headers["idempotency-key"] for each in script.asked[1:]] == ["k0", "k1", "k2"]
    done = client.follow(sent)
    assert [item.job and item.job.state for item in done.jobs] == ["succeeded", None, "failed"]
    assert done.jobs[1].error.code == "invalid_input"


def test_a_key_that_is_refused_ends_all_of_it(connect: Connect, script: Scripted) -> None:
    script.will_say(UNKNOWN, Says(status=401, body={"code": "key_refused"}))
    with pytest.raises(Refused) as refused:
        connect(script.url).batch(CALLS)
    assert refused.value.code == "key_refused"
    assert len(script.asked) == 2
