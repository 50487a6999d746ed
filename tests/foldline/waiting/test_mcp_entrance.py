"""What the entrance does with a client that leaves, and what it loads when."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Literal
from uuid import UUID, uuid4

import orjson
import pytest

from foldline.environment import ROOT
from foldline.errors import DatabaseUnavailable, problem
from foldline.tenants.services import Caller
from foldline.waiting.bridge import Bridge, Message, Scope
from foldline.waiting.inside import Inside
from foldline.waiting.mcp import app as mcp

JOB: dict[str, Any] = {
    "id": str(uuid4()),
    "state": "running",
    "model": "sleepy",
    "queue": {"message": None, "alternatives": []},
    "eta": {"finish_p50": None},
    "progress": None,
    "cancelling": False,
    "warnings": [],
    "seed": {"value": 0, "origin": "default"},
    "poll_after_s": 1,
}
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "sleepy",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
SCOPE: Scope = {
    "type": "http",
    "http_version": "1.1",
    "method": "POST",
    "path": "/mcp",
    "query_string": b"",
    "scheme": "http",
    "server": ("127.0.0.1", 8000),
    "headers": [
        (b"host", b"127.0.0.1"),
        (b"accept", b"application/json"),
        (b"content-type", b"application/json"),
        (b"mcp-protocol-version", b"2026-07-28"),
        (b"mcp-method", b"tools/call"),
        (b"mcp-name", b"sleepy"),
    ],
}


def django(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answers as Django does that has accepted a call when its database goes away."""
    named = [("X-Request-ID", "7"), ("ETag", '"1"'), ("Content-Type", "application/json")]
    if environ["PATH_INFO"] == "/v1/tools":
        start_response("200 OK", named)
        return [orjson.dumps({"tools": []})]
    if environ["REQUEST_METHOD"] == "POST":
        start_response("202 Accepted", named)
        return [orjson.dumps(JOB)]
    start_response("503 Service Unavailable", named)
    return [orjson.dumps(problem(DatabaseUnavailable(), "7"))]


class Waits:
    """Waits for ever, and remembers how that ended; or not at all, as where there is no room."""

    def __init__(self, *, at_all: bool = True) -> None:
        self.at_all = at_all
        self.begun = asyncio.Event()
        self.cancelled = False

    async def __call__(
        self,
        jobs: Collection[UUID],
        *,
        mode: Literal["any", "all"],
        timeout_s: float,
        caller: Caller | None = None,
    ) -> frozenset[UUID]:
        self.begun.set()
        if not self.at_all:
            return frozenset()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return frozenset()


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    bridge = Bridge(django, threads=1, max_body=2**20)
    yield bridge
    bridge.close()


def test_a_client_that_leaves_waits_no_longer(bridge: Bridge) -> None:
    async def leave() -> tuple[Waits, list[Message]]:
        waits, sent = Waits(), list[Message]()
        entrance = mcp(Inside(bridge), waits)
        messages = iter([{"type": "http.request", "body": orjson.dumps(CALL)}])

        async def receive() -> Message:
            if (message := next(messages, None)) is not None:
                return message
            await waits.begun.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        async with asyncio.timeout(20):
            await entrance(SCOPE, receive, send)
        await entrance.close()
        return waits, sent

    waits, sent = asyncio.run(leave())
    assert waits.cancelled
    assert sent == []


def test_a_client_that_leaves_while_it_sends_is_not_heard(bridge: Bridge) -> None:
    async def leave() -> Waits:
        waits = Waits()
        whole = orjson.dumps(CALL)
        messages: Iterator[Message] = iter(
            [
                {"type": "http.request", "body": whole, "more_body": True},
                {"type": "http.disconnect"},
            ]
        )

        async def receive() -> Message:
            return next(messages)

        async def send(_message: Message) -> None: ...

        await mcp(Inside(bridge), waits)(SCOPE, receive, send)
        return waits

    assert not asyncio.run(leave()).begun.is_set()


def test_a_call_that_was_accepted_tells_its_job_whatever_happens_then(bridge: Bridge) -> None:
    async def call() -> Any:
        sent = list[Message]()
        messages = iter([{"type": "http.request", "body": orjson.dumps(CALL)}])

        async def receive() -> Message:
            if (message := next(messages, None)) is not None:
                return message
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        entrance = mcp(Inside(bridge), Waits(at_all=False))
        async with asyncio.timeout(20):
            await entrance(SCOPE, receive, send)
        await entrance.close()
        return orjson.loads(sent[1]["body"])["result"]

    result = asyncio.run(call())
    assert result["isError"] is False
    assert result["structuredContent"]["job_id"] == JOB["id"]
    assert "Call wait_for_job" in result["structuredContent"]["next"]


def test_the_sdk_is_not_loaded_before_somebody_speaks_mcp() -> None:
    """It takes 27 MiB in each process of the gateway."""
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOADED],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "platform"), "FOLDLINE_HOME": "/nonexistent", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert told.stdout.strip() == "[]", told.stderr


_LOADED = """
import os, sys, tempfile
os.environ["FOLDLINE_HOME"] = tempfile.mkdtemp()
import foldline.waiting.app
print([name for name in ("mcp", "mcp_types", "starlette") if name in sys.modules])
"""
