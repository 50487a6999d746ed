"""A request that waits: asking Django on its behalf, and noticing that its client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from foldline.tenants.visits import Visit
from foldline.waiting.bridge import Bridge, Receive, Scope
from foldline.waiting.held import Held, ask, nothing
from foldline.waiting.inside import inner
from foldline.waiting.watch import Watch


class Call:
    """The request as it came, and the visit that all its questions to Django belong to."""

    def __init__(self, django: Bridge, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.visit = Visit()
        self._django = django
        self._receive = receive

    def header(self, name: bytes) -> bytes:
        """Its values of this name, joined; empty without one."""
        return b",".join(value for each, value in self.scope["headers"] if each == name)

    async def ask(self) -> Held:
        """Have Django answer it as things stand now. It has no body."""
        return await ask(self._django, self.scope, nothing, visit=self.visit)

    async def send_in(self) -> Held:
        """Have Django answer it, body and all. Raises ClientLeft."""
        return await ask(self._django, self.scope, self._receive, visit=self.visit)

    async def ask_for(self, path: str) -> Held:
        """Have Django answer another `GET` of the same caller."""
        scope = inner(self.scope, "GET", path)
        return await ask(self._django, scope, nothing, visit=self.visit)

    @asynccontextmanager
    async def leaving(self, watch: Watch) -> AsyncIterator[None]:
        """Within the block the watch learns that the client has left."""
        listening = asyncio.create_task(watch.until_gone(self._receive))
        try:
            yield
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
