"""One HTTP exchange: the body in, bounded, and the answer out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import orjson
from django.conf import settings

from foldline.errors import FoldlineError, problem
from foldline.waiting.bridge import Message, Receive, Scope, Send
from foldline.waiting.inside import Reply
from foldline.waiting.mcp.visit import Visit

PROBLEM = "application/problem+json"


class Incoming:
    """A body that was read before, and later that the client has left."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._first: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive
        self._left = asyncio.Event()

    async def __call__(self) -> Message:
        if self._first is not None:
            message, self._first = self._first, None
            return message
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def watch(self) -> None:
        """Returns when the client has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left.set()


class Outgoing:
    """The answer, with the request's id. A key that was revoked meanwhile turns it into a 401,
    as long as nothing was sent."""

    def __init__(self, visit: Visit, send: Send, *, request_id: str) -> None:
        self._visit = visit
        self._send = send
        self._named = (b"x-request-id", request_id.encode())
        self._begun = False
        self._replaced = False

    async def __call__(self, message: Message) -> None:
        if self._visit.unwelcome is not None and not self._begun:
            self._begun = self._replaced = True
            await pass_on(self._visit.unwelcome, self._send)
        if self._replaced:
            return
        if message["type"] == "http.response.start":
            self._begun = True
            message = {**message, "headers": [*message.get("headers", []), self._named]}
        await self._send(message)


async def read(scope: Scope, receive: Receive) -> bytes | None:
    """The body; None where it is longer than any JSON body may be, or its sender has left."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if length.isdigit() and int(length) > settings.MAX_BODY_BYTES:
        return None
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if message["type"] == "http.disconnect" or len(body) > settings.MAX_BODY_BYTES:
            return None
    return bytes(body)


async def refuse(
    error: FoldlineError, send: Send, *, request_id: str = "", allow: str = ""
) -> None:
    name = request_id or uuid4().hex
    headers = {"x-request-id": name} | ({"allow": allow} if allow else {})
    told = problem(error, name)
    await send_json(send, error.status, told, kind=PROBLEM, headers=headers)


async def pass_on(reply: Reply, send: Send) -> None:
    """What Django answered."""
    kept = ("www-authenticate", "location", "retry-after", "x-request-id")
    headers = {name: value for name, value in reply.headers.items() if name in kept}
    kind = reply.headers.get("content-type", PROBLEM)
    await send_json(send, reply.status, reply.body, kind=kind, headers=headers)


async def send_json(
    send: Send,
    status: int,
    body: Mapping[str, Any] | None,
    *,
    kind: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> None:
    content = b"" if body is None else orjson.dumps(body)
    told = {**(headers or {}), "content-type": kind, "content-length": str(len(content))}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": content})
