"""What is tried again and what is not, request by request, on a server with a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from foldline.client import BadAnswer, FoldlineError, Patience, Refused, Unreachable
from tests.foldline.client.conftest import Clock
from tests.foldline.client.scripted import Says, Scripted
from tests.redis_server import free_port

Connect = Callable[..., Any]

JOB = {"id": "j1", "state": "queued", "model": "sleepy", "poll_after_s": 1}
ACCEPTED = Says(status=202, body=JOB)


def problem(status: int, code: str, *, retryable: bool = False, **more: Any) -> Says:
    headers = more.pop("headers", {})
    body = {"code": code, "detail": "No.", "fault": "caller", "retryable": retryable, **more}
    return Says(status=status, body=body, headers=headers)


BUSY = problem(429, "quota_exceeded", retryable=True, headers={"Retry-After": "0"})


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(BUSY, id="429"),
        pytest.param(problem(503, "database_unavailable", retryable=True), id="503"),
        pytest.param(problem(500, "internal", retryable=True), id="500 that says so"),
        pytest.param(Says(status=502, raw=b"<html>bad gateway</html>"), id="502 of a proxy"),
        pytest.param(Says(cut=True), id="cut after the request was read"),
    ],
)
def test_what_may_pass_is_tried_again_with_the_same_key(
    connect: Connect, script: Scripted, failure: Says
) -> None:
    script.will_say(failure, failure, ACCEPTED)
    assert connect(script.url).submit("sleepy", {"seconds": 0}).id == "j1"
    assert script.paths == ["/v1/models/sleepy/jobs"] * 3
    assert len({each.headers["idempotency-key"] for each in script.asked}) == 1
    assert len({each.body for each in script.asked}) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        problem(400, "invalid_request"),
        problem(401, "key_refused"),
        problem(403, "quota_forbids"),
        problem(404, "model_not_found"),
        problem(409, "model_error"),
        problem(422, "invalid_input"),
        problem(422, "idempotency_key_reused"),
        problem(429, "repeat_failure", headers={"Retry-After": "0"}),
        problem(500, "internal"),
        Says(status=404, raw=b"<html>what is this</html>"),
        Says(status=302, raw=b"", headers={"Location": "http://127.0.0.1:9/"}),
    ],
    ids=lambda says: f"{says.status} {(says.body or {}).get('code', 'page')}",
)
def test_what_cannot_pass_is_asked_once(connect: Connect, script: Scripted, refusal: Says) -> None:
    script.will_say(refusal)
    with pytest.raises(FoldlineError):
        connect(script.url).submit("sleepy", {"seconds": 0})
    assert len(script.asked) == 1


def test_retry_after_is_a_least_and_jitter_comes_on_top(
    connect: Connect, script: Scripted, clock: Clock
) -> None:
    again = problem(429, "quota_exceeded", retryable=True, headers={"Retry-After": "1"})
    script.will_say(again, ACCEPTED)
    pauses: list[float] = []
    client = connect(script.url, noticed=lambda _error, pause: pauses.append(pause))
    client.submit("sleepy", {"seconds": 0})
    assert len(script.asked) == 2
    assert clock.pauses == pauses
    assert 1 <= pauses[0] <= 1.02


def test_who_must_wait_longer_than_there_is_time_is_told_at_once(
    connect: Connect, script: Scripted
) -> None:
    script.will_say(problem(429, "quota_exceeded", retryable=True, retry_after_s=3600))
    with pytest.raises(Refused) as refused:
        connect(script.url).models()
    assert len(script.asked) == 1
    assert refused.value.code == "quota_exceeded"
    assert refused.value.retryable


def test_trying_ends_when_the_time_is_over(
    connect: Connect, script: Scripted, clock: Clock
) -> None:
    script.will_say(problem(503, "storage", retryable=True))
    patience = Patience(total_s=0.5, first_s=0.05, most_s=0.1)
    with pytest.raises(Refused):
        connect(script.url, patience=patience).job("j1")
    assert len(script.asked) == len(clock.pauses) + 1 > 2
    assert clock.now <= 0.5
    assert len(set(clock.pauses)) == len(clock.pauses), "full jitter: no two alike"


def test_a_silent_address_is_an_error_that_may_pass(connect: Connect) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Unreachable) as error:
        connect(url, patience=Patience(total_s=0.1, first_s=0.02)).models()
    assert url in str(error.value)
    assert (error.value.code, error.value.retryable) == ("unreachable", True)


def test_an_error_has_the_problems_members(connect: Connect, script: Scripted) -> None:
    finding = {
        "pointer": "/inputs/x",
        "code": "wrong_type",
        "got": "1",
        "expected": "a text",
        "hint": "",
    }
    script.will_say(
        problem(
            422,
            "invalid_input",
            suggested_action="Correct it.",
            errors=[finding],
            alternatives=[{"model": "other", "why": "same family"}],
        )
    )
    with pytest.raises(Refused) as error:
        connect(script.url).submit("sleepy", {})
    assert str(error.value) == "No. Correct it."
    assert error.value.fault == "caller"
    assert error.value.errors[0].pointer == "/inputs/x"
    assert error.value.alternatives[0].model == "other"
    assert error.value.problem.status == 422


@pytest.mark.parametrize(
    "answer",
    [
        Says(raw=b"<html>welcome</html>"),
        Says(body=[1]),
        Says(body={"id": 7, "state": "queued", "model": "sleepy"}),
        Says(body={"id": "j1", "state": "queued"}),
        Says(body={**JOB, "created_at": "yesterday"}),
        Says(body={**JOB, "queue": {"position": True}}),
    ],
    ids=["page", "list", "wrong type", "missing member", "no time", "bool is no number"],
)
def test_an_answer_that_is_none_of_foldlines_is_an_error(
    connect: Connect, script: Scripted, answer: Says
) -> None:
    script.will_say(answer)
    with pytest.raises(BadAnswer):
        connect(script.url).job("j1")


def test_a_newer_server_may_tell_more(connect: Connect, script: Scripted) -> None:
    script.will_say(Says(body={**JOB, "mood": "good", "queue": {"position": 2, "colour": "red"}}))
    job = connect(script.url).job("j1")
    assert job.queue.position == 2
    assert job.body["mood"] == "good"


@pytest.mark.parametrize("name", ["../admin", "a/b", "..", ".", "", "a?b=c", "a#b", "ä b"])
def test_a_name_stays_one_part_of_the_path(connect: Connect, script: Scripted, name: str) -> None:
    script.will_say(problem(404, "job_not_found"))
    with pytest.raises(Refused):
        connect(script.url).job(name)
    (path,) = script.paths
    assert path.startswith("/v1/jobs/")
    assert path.count("/") == 3
    assert "?" not in path
    assert ".." not in path


@pytest.mark.parametrize("url", ["", "foldline", "ftp://host", "http://", "http://u:p@host/"])
def test_an_address_that_is_none_is_refused_before_anything_is_sent(
    connect: Connect, url: str
) -> None:
    with pytest.raises(ValueError, match="URL"):
        connect(url)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_is_none_is_refused_and_not_repeated(connect: Connect, key: str) -> None:
    with pytest.raises(ValueError, match="API key") as error:
        connect("http://127.0.0.1:1", key)
    assert not key or key not in str(error.value)
