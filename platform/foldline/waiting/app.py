"""The gateway's door, an ASGI application: `foldline.waiting.app:app`.

An ordinary request goes straight through to Django. One that wants to wait does so in the
waiting room, without a thread, and Django answers it when there is something to say.
"""

from __future__ import annotations

from foldline.wsgi import application  # sets Django up, which what follows needs

# isort: split
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from uuid import UUID

from django.conf import settings

from foldline.errors import TooManyWaits, WaitingRoomFull
from foldline.numbers import MOST_WAIT_S, whole_number
from foldline.waiting import polls, streams, submits
from foldline.waiting.bridge import Bridge, Receive, Scope, Send, WSGIApp
from foldline.waiting.calls import Call
from foldline.waiting.held import ClientLeft, Held, refusal
from foldline.waiting.inside import Inside
from foldline.waiting.mcp import app as mcp
from foldline.waiting.reads import Reads
from foldline.waiting.room import Room
from foldline.waiting.server import LEAVE

# Room for the frame around an upload of the greatest size.
FRAME_BYTES = 64 * 1024

JOBS, BATCHES, MODELS = "/v1/jobs/", "/v1/batches/", "/v1/models/"
Wait = Callable[[Call, Send], Awaitable[Held | None]]


class Door:
    """Tells kinds of requests apart; each kind is served by one callable."""

    def __init__(self, wsgi: WSGIApp = application) -> None:
        max_body = settings.MAX_UPLOAD_BYTES + FRAME_BYTES
        self.django = Bridge(wsgi, threads=settings.THREADS, max_body=max_body)
        self.room = Room(Reads(self.django))
        self.mcp = mcp(Inside(self.django), self.room.ended)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if scope["path"] == "/mcp":
                await self.mcp(scope, receive, send)
            elif (wait := self._wait_of(scope)) is None:
                await self.django(scope, receive, send)
            else:
                await self._let_wait(wait, scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(scope, receive, send)

    def _wait_of(self, scope: Scope) -> Wait | None:
        """How a request waits; None for one that does not, or that Django will refuse."""
        path, method = scope["path"], scope["method"]
        if method == "GET":
            if path.startswith(JOBS):
                return self._watching(path.removeprefix(JOBS), scope)
            if path.startswith(BATCHES) and "/" not in path.removeprefix(BATCHES):
                return self._batch(scope)
        elif method == "POST" and path.startswith(MODELS) and path.endswith("/jobs"):
            return self._submit(submits.submit, scope)
        elif method == "POST" and f"{path}/" == BATCHES:
            return self._submit(submits.submit_batch, scope)
        return None

    def _watching(self, name: str, scope: Scope) -> Wait | None:
        if name.endswith("/events"):
            job_id = _id(name.removesuffix("/events"))
            return partial(streams.stream, room=self.room, job_id=job_id) if job_id else None
        if b"wait=" not in scope["query_string"]:
            return None
        job_id, seconds = _id(name), _seconds(polls.asked(scope).get("wait", ""))
        if job_id is None or seconds is None:
            return None
        return partial(polls.poll_job, room=self.room, job_id=job_id, seconds=seconds)

    def _batch(self, scope: Scope) -> Wait | None:
        asked = polls.asked(scope)
        mode = polls.MODES.get(asked.get("wait", ""))
        seconds = _seconds(asked.get("timeout_s", str(MOST_WAIT_S)))
        if mode is None or seconds is None:
            return None
        return partial(polls.poll_batch, room=self.room, mode=mode, seconds=seconds)

    def _submit(self, submit: Callable[..., Awaitable[Held]], scope: Scope) -> Wait | None:
        preferences = [value for name, value in scope["headers"] if name == b"prefer"]
        seconds = submits.preferred_wait(b",".join(preferences)) if preferences else None
        return None if seconds is None else partial(submit, room=self.room, seconds=seconds)

    async def _let_wait(self, wait: Wait, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientLeft):
            try:
                answer = await wait(Call(self.django, scope, receive), send)
            except (TooManyWaits, WaitingRoomFull) as error:
                answer = refusal(error)
            if answer is not None:
                await answer.send(send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        scope["state"][LEAVE] = self.room.leave
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        await self.mcp.close()
        await self.room.close()
        self.django.close()
        await send({"type": "lifespan.shutdown.complete"})


def _id(text: str) -> UUID | None:
    with suppress(ValueError):
        return UUID(text)
    return None


def _seconds(text: str) -> int | None:
    """How long to wait; None when Django will say what is wrong."""
    return whole_number(text, most=MOST_WAIT_S)


app = Door()
