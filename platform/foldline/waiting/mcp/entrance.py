"""The ASGI application at `/mcp`: lets a caller in, or not, before any of its request is read.

The SDK (27 MiB a process) is loaded with the first request that may come in.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from foldline.errors import BodyTooLarge, MethodNotAllowed
from foldline.tenants.visits import Visit as Asking
from foldline.waiting.bridge import Receive, Scope, Send
from foldline.waiting.inside import Ended, Inside, Reply
from foldline.waiting.mcp.exchange import Incoming, Outgoing, pass_on, read, refuse, send_json
from foldline.waiting.mcp.guard import is_unambiguous, stranger
from foldline.waiting.mcp.visit import VISIT, Visit

LISTED = "/v1/tools?format=mcp"
PARSE_ERROR = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
_OF_HTTP = frozenset({301, 302, 307, 308, 400, 401})
"""What HTTP answers: who gets them may not speak MCP. The rest is told in MCP's own words."""


class Entrance:
    """Serves the scope `http`. It keeps no state of its callers: any process may answer any
    request."""

    def __init__(self, inside: Inside, ended: Ended) -> None:
        self._inside = inside
        self._ended = ended
        self._tools: list[dict[str, Any]] = []
        self._etag = '""'
        self._opening = asyncio.Lock()
        self._protocol: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        foreign = stranger(scope)
        if foreign is not None:
            await refuse(foreign, send)
            return
        asking = Asking()
        gate = await self._gate(scope, asking)
        name = gate.headers["x-request-id"]
        if gate.status in _OF_HTTP:
            await pass_on(gate, send)
        elif scope["method"] != "POST":
            await refuse(MethodNotAllowed(), send, request_id=name, allow="POST")
        elif (body := await read(scope, receive)) is None:
            await refuse(BodyTooLarge(), send, request_id=name)
        elif not is_unambiguous(body):
            await send_json(send, 400, PARSE_ERROR)
        else:
            visit = Visit(
                inside=self._inside,
                ended=self._ended,
                asking=asking,
                scope=_named(scope, name),
                tools=self._tools,
                gate=gate,
            )
            await self._speak(visit, body, receive, Outgoing(visit, send, request_id=name))

    async def close(self) -> None:
        """End the SDK's task group, if it was ever begun."""
        if self._protocol is not None:
            await self._protocol.close()

    async def _gate(self, scope: Scope, asking: Asking) -> Reply:
        """Ask for the tools as the caller: that tells whether the key is good, costs little when
        nothing has changed, and keeps the tools fresh. The query goes along, so that a key in
        it is refused."""
        query = scope["query_string"].decode("latin-1")
        target = f"{LISTED}&{query}" if query else LISTED
        known = {"if-none-match": self._etag}
        gate = await self._inside.ask(scope, "GET", target, headers=known, visit=asking)
        if gate.status == 200:
            self._tools, self._etag = gate.body["tools"], gate.headers["etag"]
        return gate

    async def _speak(self, visit: Visit, body: bytes, receive: Receive, send: Send) -> None:
        """Let the SDK answer, unless the client leaves: then nobody waits any longer. What was
        submitted stays."""
        incoming = Incoming(body, receive)
        protocol = await self._opened()
        scope = {**visit.scope, VISIT: visit}
        work = asyncio.ensure_future(protocol.serve(scope, body, incoming, send))
        leaving = asyncio.ensure_future(incoming.watch())
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            work.cancel()
        await asyncio.wait({work})
        if not work.cancelled():
            work.result()

    async def _opened(self) -> Any:
        """The protocol, which takes half a second to import: on a thread, so that others are
        served meanwhile."""
        async with self._opening:
            if self._protocol is None:
                server = await asyncio.to_thread(
                    importlib.import_module, "foldline.waiting.mcp.server"
                )
                self._protocol = await server.Protocol.opened()
        return self._protocol


def _named(scope: Scope, request_id: str) -> Scope:
    """With one id for all that is asked for it."""
    others = [(name, value) for name, value in scope["headers"] if name != b"x-request-id"]
    return {**scope, "headers": [*others, (b"x-request-id", request_id.encode())]}
