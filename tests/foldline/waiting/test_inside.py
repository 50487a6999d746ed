"""The inner request: whose it is, and what it carries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from foldline.tenants.visits import VISIT, Visit
from foldline.waiting.bridge import Bridge
from foldline.waiting.inside import Inside, Reply

Environ = dict[str, Any]
ORIGIN = {
    "type": "http",
    "http_version": "1.1",
    "method": "GET",
    "path": "/v1/jobs/1/events",
    "query_string": b"wait=5",
    "scheme": "https",
    "server": ("127.0.0.1", 8000),
    "client": ("127.0.0.1", 50000),
    "headers": [
        (b"host", b"foldline.example"),
        (b"authorization", b"Bearer fl_live_x"),
        (b"accept", b"text/event-stream"),
        (b"content-length", b"7"),
    ],
}


def echo(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answers with the request it was given."""
    told = {name: value for name, value in environ.items() if isinstance(value, str)}
    told["body"] = environ["wsgi.input"].read().decode()
    start_response("201 Created", [("ETag", '"7"')])
    return [json.dumps(told).encode()]


def nothing(_environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("304 Not Modified", [])
    return []


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    bridge = Bridge(echo, threads=1, max_body=1024)
    yield bridge
    bridge.close()


def ask(bridge: Bridge, *request: str, **content: Any) -> Reply:
    return asyncio.run(Inside(bridge).ask(ORIGIN, *request, **content))


def test_it_is_the_callers_own_request_with_another_address(bridge: Bridge) -> None:
    reply = ask(bridge, "GET", "/v1/jobs/1?wait=0", headers={"If-None-Match": '"6"'})
    assert (reply.status, reply.headers["etag"]) == (201, '"7"')
    assert reply.body["REQUEST_METHOD"] == "GET"
    assert (reply.body["PATH_INFO"], reply.body["QUERY_STRING"]) == ("/v1/jobs/1", "wait=0")
    assert reply.body["HTTP_AUTHORIZATION"] == "Bearer fl_live_x"
    assert reply.body["HTTP_HOST"] == "foldline.example"
    assert reply.body["wsgi.url_scheme"] == "https"
    assert reply.body["HTTP_IF_NONE_MATCH"] == '"6"'


def test_what_the_outer_request_said_of_its_own_body_and_answer_is_left_behind(
    bridge: Bridge,
) -> None:
    reply = ask(bridge, "GET", "/v1/jobs")
    assert "HTTP_ACCEPT" not in reply.body
    assert reply.body["body"] == ""


def test_a_body_is_sent_as_json_with_its_length(bridge: Bridge) -> None:
    reply = ask(bridge, "POST", "/v1/models/fold/jobs", body={"inputs": {"name": "Ä"}})
    assert reply.body["CONTENT_TYPE"] == "application/json"
    assert json.loads(reply.body["body"]) == {"inputs": {"name": "Ä"}}
    assert int(reply.body["CONTENT_LENGTH"]) == len(reply.body["body"].encode())


def test_an_answer_without_a_body_is_none() -> None:
    bridge = Bridge(nothing, threads=1, max_body=1024)
    try:
        reply = ask(bridge, "GET", "/v1/jobs/1")
    finally:
        bridge.close()
    assert (reply.status, reply.body) == (304, None)


def test_requests_of_one_visit_carry_it_where_no_header_reaches(bridge: Bridge) -> None:
    seen: list[object] = []

    def look(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        seen.append(environ.get(VISIT))
        return nothing(environ, start_response)

    bridge.app = look
    visit = Visit()
    ask(bridge, "GET", "/v1/jobs", visit=visit)
    ask(bridge, "GET", "/v1/jobs", visit=visit, headers={VISIT: "forged"})
    assert seen == [visit, visit]
    assert seen[0] is seen[1] is visit
