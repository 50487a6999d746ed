"""Server-sent events, whole, in pieces, cut and taken up again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from foldline.client import BadAnswer, Refused
from foldline.client.events import MOST_EVENT_BYTES, Reader
from tests.foldline.client.scripted import Says, Scripted

Connect = Callable[..., Any]

STREAM = (
    b": hello\n\n"
    b'id: 1\nevent: state\ndata: {"state": "running"}\n\n'
    b'event: progress\r\nid: 2\r\ndata: {"fraction":\r\ndata: 0.5}\r\n\r\n'
    b"retry: 100\n\n"
    b'id: 3\nevent: state\ndata: {"state": "succeeded"}\n\n'
)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_are_read_whatever_the_pieces(size: int) -> None:
    reader = Reader()
    events = [
        event
        for start in range(0, len(STREAM), size)
        for event in reader.feed(STREAM[start : start + size])
    ]
    assert [(event.id, event.kind) for event in events] == [
        ("1", "state"),
        ("2", "progress"),
        ("3", "state"),
    ]
    assert events[1].data == {"fraction": 0.5}


def stream(content: bytes) -> Says:
    return Says(raw=content, headers={"Content-Type": "text/event-stream"})


def test_a_cut_line_is_taken_up_after_the_last_event(connect: Connect, script: Scripted) -> None:
    half = STREAM.index(b"retry")
    script.will_say(stream(STREAM[: half - 20]), Says(cut=True), stream(STREAM[half - 60 :]))
    events = list(connect(script.url).events("j1"))
    assert events[-1].data == {"state": "succeeded"}
    assert "last-event-id" not in script.asked[0].headers
    assert {each.headers["last-event-id"] for each in script.asked[1:]} == {"1"}


def test_a_stream_without_news_ends_with_its_job(connect: Connect, script: Scripted) -> None:
    job = {"id": "j1", "model": "sleepy"}
    script.will_say(
        stream(b""),
        Says(body={**job, "state": "running"}),
        stream(b": nothing\n\n"),
        Says(body={**job, "state": "succeeded"}),
    )
    assert list(connect(script.url).events("j1", last_id="9")) == []
    assert script.asked[0].headers["last-event-id"] == "9"
    assert len(script.asked) == 4


def test_a_stream_that_is_refused_is_an_error(connect: Connect, script: Scripted) -> None:
    script.will_say(Says(status=404, body={"code": "job_not_found"}))
    with pytest.raises(Refused):
        list(connect(script.url).events("j1"))


def test_a_stream_that_ends_with_a_reason_is_an_error(connect: Connect, script: Scripted) -> None:
    script.will_say(stream(b'event: error\ndata: {"code": "key_refused", "status": 401}\n\n'))
    with pytest.raises(Refused) as refused:
        list(connect(script.url).events("j1"))
    assert refused.value.code == "key_refused"


def test_an_endless_line_is_not_collected() -> None:
    reader = Reader()
    reader.feed(b"x" * MOST_EVENT_BYTES)
    with pytest.raises(BadAnswer):
        reader.feed(b"x")


def test_an_event_that_is_no_json_is_an_error() -> None:
    with pytest.raises(BadAnswer):
        Reader().feed(b"data: {\n\n")
