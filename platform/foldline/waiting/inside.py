"""Asking Django from inside the door, on behalf of a caller whose request waits there.

The inner request carries the caller's own key, so every rule of the API holds for it:
scopes, quotas, rates, and a key that has been revoked meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from uuid import UUID

import orjson

from foldline.tenants.services import Caller
from foldline.tenants.visits import Visit
from foldline.waiting.bridge import Bridge, Message, Scope
from foldline.waiting.held import ask

# Of the caller's own headers; the rest is about the outer request's body and answer.
_CARRIED = frozenset(
    {b"host", b"authorization", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"}
    | {b"x-request-id", b"traceparent"}
)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What Django answered; header names are lower case. Nothing of ours answers else than JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Inside:
    """`django`: the bridge that ordinary requests take, too."""

    def __init__(self, django: Bridge) -> None:
        self._django = django

    async def ask(
        self,
        origin: Scope,
        method: str,
        target: str,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        visit: Visit | None = None,
    ) -> Reply:
        """Send a request for the caller of `origin`; `target` is a path with its query. Requests
        of the same `visit` count as one against the rates."""
        content = b"" if body is None else orjson.dumps(body)
        own = dict(headers or {})
        if body is not None:
            own |= {"content-type": "application/json", "content-length": str(len(content))}

        async def receive() -> Message:
            return {"type": "http.request", "body": content}

        scope = inner(origin, method, target, headers=own)
        held = await ask(self._django, scope, receive, visit=visit or Visit())
        return Reply(
            status=held.status,
            headers={name.decode(): value.decode("latin-1") for name, value in held.headers},
            body=orjson.loads(held.body) if held.body else None,
        )


def inner(
    origin: Scope, method: str, target: str, *, headers: Mapping[str, str] | None = None
) -> Scope:
    """A request of the caller of `origin`, without what that said of its own body and answer."""
    path, _, query = target.partition("?")
    own = (headers or {}).items()
    return {
        **origin,
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [
            *((name, value) for name, value in origin["headers"] if name in _CARRIED),
            *((name.lower().encode(), value.encode("latin-1")) for name, value in own),
        ],
    }


class Ended(Protocol):
    """Waits for the ends of jobs, holding no thread. Whose jobs they are was checked before."""

    async def __call__(
        self,
        jobs: Collection[UUID],
        *,
        mode: Literal["any", "all"],
        timeout_s: float,
        caller: Caller | None = None,
    ) -> frozenset[UUID]:
        """Those that have ended: once any has, once all have, or when the time is over.

        With a `caller` (of a `Visit`) also when its key ends. Raises WaitingRoomFull and, for a
        caller, TooManyWaits.
        """
        ...
