"""Waiting by long-poll where the server can, and by `poll_after_s` where it answers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from foldline.client import TimedOut
from tests.foldline.client.conftest import Clock
from tests.foldline.client.scripted import Says, Scripted

Connect = Callable[..., Any]


def job(state: str, name: str = "j1", **more: Any) -> dict[str, Any]:
    return {"id": name, "state": state, "model": "sleepy", "poll_after_s": 1, **more}


def test_a_server_that_answers_at_once_is_asked_when_it_says(
    connect: Connect, script: Scripted, clock: Clock
) -> None:
    script.will_say(*[Says(body=job("running"))] * 3, Says(body=job("succeeded")))
    (ended,) = connect(script.url).wait(["j1"])
    assert ended.state == "succeeded"
    assert len(script.asked) == 4
    assert clock.pauses == [1, 1]


def test_a_server_that_waits_is_asked_again_as_soon_as_it_answers(
    connect: Connect, script: Scripted, clock: Clock
) -> None:
    queued = Says(body=job("queued", poll_after_s=50), headers={"ETag": '"v1"'})
    running = Says(body=job("running", poll_after_s=50), headers={"ETag": '"v2"'})
    script.will_say(queued, running, Says(body=job("succeeded", poll_after_s=None)))
    (ended,) = connect(script.url).wait(["j1"])
    assert ended.ended
    assert script.paths == ["/v1/jobs/j1", "/v1/jobs/j1?wait=15", "/v1/jobs/j1?wait=45"]
    assert clock.pauses == [1], "it does not wait for poll_after_s"


def test_a_server_that_says_unchanged_without_waiting_is_not_asked_all_the_time(
    connect: Connect, script: Scripted, clock: Clock
) -> None:
    same = Says(body=job("running", poll_after_s=2), headers={"ETag": '"v1"'})
    script.will_say(same, same, same, Says(body=job("succeeded")))
    connect(script.url).wait(["j1"])
    assert len(script.asked) == 4
    assert clock.pauses == [1, 2]


def test_who_finds_no_seat_asks_without_waiting(
    connect: Connect, script: Scripted, clock: Clock
) -> None:
    tagged = {"ETag": '"v1"'}
    full = Says(status=503, body={"code": "waiting_room_full", "retryable": True})
    script.will_say(
        Says(body=job("running"), headers=tagged),
        full,
        Says(body=job("running"), headers=tagged),
        Says(body=job("succeeded")),
    )
    connect(script.url).wait(["j1"])
    assert script.paths[1:3] == ["/v1/jobs/j1?wait=45", "/v1/jobs/j1"]
    assert clock.pauses == [1], "one look apart from the next; a seat is no reason to wait longer"


def test_a_long_poll_is_no_longer_than_the_time_there_is(
    connect: Connect, script: Scripted, clock: Clock
) -> None:
    script.will_say(Says(body=job("running", poll_after_s=30)))
    with pytest.raises(TimedOut) as error:
        connect(script.url).wait(["j1"], timeout_s=1.5)
    assert script.paths[1] == "/v1/jobs/j1?wait=1"
    assert clock.pauses == [1.5]
    assert [each.state for each in error.value.jobs] == ["running"]
    assert error.value.retryable


def test_any_ends_with_the_first_and_keeps_the_order(connect: Connect, script: Scripted) -> None:
    script.will_say(
        Says(body=job("running", "a")),
        Says(body=job("running", "b")),
        Says(body=job("running", "a")),
        Says(body=job("failed", "b")),
    )
    states = [each.state for each in connect(script.url).wait(["a", "b"], "any")]
    assert states == ["running", "failed"]


def test_what_is_seen_is_told_from_the_first_look_to_the_end(
    connect: Connect, script: Scripted
) -> None:
    script.will_say(Says(body=job("queued")), Says(body=job("succeeded")))
    seen: list[str] = []
    connect(script.url).wait(["j1"], seen=lambda jobs: seen.append(jobs[0].state))
    assert seen == ["queued", "succeeded"]


def test_waiting_for_nothing_ends_at_once(connect: Connect, script: Scripted) -> None:
    script.will_say(Says(status=500))
    assert connect(script.url).wait([]) == []
    assert script.asked == []
