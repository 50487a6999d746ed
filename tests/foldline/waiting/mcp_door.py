"""The gateway's door with `/mcp`, waiting by a look at the database now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Literal
from uuid import UUID

from foldline.waiting.app import Door
from foldline.waiting.bridge import Receive, Scope, Send
from foldline.waiting.inside import Inside
from foldline.waiting.mcp import app as mcp


async def ended(
    jobs: Collection[UUID], *, mode: Literal["any", "all"], timeout_s: float
) -> frozenset[UUID]:
    ends = time.monotonic() + timeout_s
    while True:
        found = await asyncio.to_thread(_ended, frozenset(jobs))
        if (found if mode == "any" else len(found) == len(jobs)) or time.monotonic() > ends:
            return found
        await asyncio.sleep(0.05)


def _ended(jobs: frozenset[UUID]) -> frozenset[UUID]:
    from foldline.jobs.models import Job
    from foldline.jobs.states import TERMINAL

    return frozenset(
        Job.objects.filter(id__in=jobs, state__in=TERMINAL).values_list("id", flat=True)
    )


class McpDoor(Door):
    def __init__(self) -> None:
        super().__init__()
        self.mcp = mcp(Inside(self.django), ended)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/mcp":
            await self.mcp(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


app = McpDoor()
