"""Django's answer, held back until it is decided whether it is the one to send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson

from foldline.errors import FoldlineError, problem
from foldline.tenants.visits import VISIT, Visit
from foldline.waiting.bridge import Bridge, Message, Receive, Scope, Send

Headers = list[tuple[bytes, bytes]]


@dataclass(kw_only=True)
class Held:
    """An answer that was not sent yet; header names are lower case."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: bytes) -> bytes:
        """The first of this name, or nothing."""
        return next((value for each, value in self.headers if each == name), b"")

    def json(self) -> Any:
        return orjson.loads(self.body)

    async def send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


async def ask(django: Bridge, scope: Scope, receive: Receive, *, visit: Visit) -> Held:
    """Have Django answer a request of this visit."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await django({**scope, VISIT: visit}, receive, send)
    if not sent:
        raise ClientLeft
    start, *rest = sent
    body = b"".join(message.get("body", b"") for message in rest)
    return Held(status=start["status"], headers=list(start["headers"]), body=body)


class ClientLeft(Exception):
    """Nobody is there any more to be answered."""


def refusal(error: FoldlineError, *, request_id: str = "") -> Held:
    """A problem of the waiting room's own, in the shape of all others."""
    name = request_id or uuid4().hex
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"x-request-id", name.encode()),
        *([(b"retry-after", str(error.retry_after_s).encode())] if error.retry_after_s else []),
    ]
    return Held(status=error.status, headers=headers, body=orjson.dumps(problem(error, name)))


async def nothing() -> Message:
    """What a request without a body receives."""
    return {"type": "http.request"}
