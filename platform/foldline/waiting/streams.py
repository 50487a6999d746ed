"""`GET /v1/jobs/{id}/events`: a stream that stays open until the job has ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from uuid import UUID

from foldline.jobs.states import State
from foldline.notify.stream import RETRY, START, Cursor, problem_event
from foldline.waiting.bridge import Message, Send
from foldline.waiting.calls import Call
from foldline.waiting.held import Held
from foldline.waiting.room import Room
from foldline.waiting.together import Unanswered
from foldline.waiting.watch import Watch

KEEP_ALIVE_S = 15.0
WRITE_S = 30.0  # that a client may take to make room for more
KEEP_ALIVE = b":\n\n"
LEAVING = b": come again\n" + RETRY


async def stream(call: Call, send: Send, *, room: Room, job_id: UUID) -> Held | None:
    """Send the stream; an answer instead when there is none to send."""
    with room.watch(job_id) as watch:
        answer = await call.ask()
        if answer.status != 200:
            return answer
        room.seat(watch, call.visit.caller)
        async with call.leaving(watch):
            await _Stream(room, watch, call, send, job_id).run(answer)
    return None


class _Stream:
    """Tell, wait, tell what is new, until there is nothing more to tell. What changes while the
    client is slow to read is told as it stands when the client has read."""

    def __init__(self, room: Room, watch: Watch, call: Call, send: Send, job_id: UUID) -> None:
        self._room = room
        self._watch = watch
        self._call = call
        self._send = send
        self._job_id = job_id
        self._place = b""
        self._ended = False

    async def run(self, first: Held) -> None:
        given = Cursor.read(self._call.header(b"last-event-id").decode("latin-1"))
        self._cursor = Cursor.after(first.body) or given or START
        await self._within({"type": "http.response.start", "status": 200, "headers": first.headers})
        await self._write(first.body)
        # Also before it waits: what changed before the news of it could be heard.
        await self._write(await self._untold() + await self._first_place())
        while not self._ended and not self._watch.disturbed:
            if await self._watch.woken(monotonic() + KEEP_ALIVE_S):
                text = await self._untold() if self._watch.changed() else b""
                await self._write(text + self._moved())
            elif not self._watch.disturbed:
                await self._write(KEEP_ALIVE)
        if not self._watch.gone:
            await self._within({"type": "http.response.body", "body": await self._last_words()})

    async def _untold(self) -> bytes:
        """What has happened since the cursor, which is moved on."""
        watch = self._watch
        watch.known.setdefault(self._job_id, "")
        try:
            told = await self._room.reads.telling.ask((self._job_id, self._cursor))
        except Unanswered:
            return b""  # the mark is still another one than is known: the next reading wakes us
        if told is None:
            watch.refuse()  # the job is gone, and Django will say so
            return b""
        self._cursor, self._ended = told.cursor, told.mark.ended
        watch.known[self._job_id] = told.mark.tag
        watch.in_line = self._job_id if told.mark.state is State.QUEUED else None
        if told.mark.run_id is not None:
            self._room.follow(watch, told.mark.run_id)
        return told.text

    async def _first_place(self) -> bytes:
        if self._watch.in_line is not None:
            with suppress(Unanswered):
                self._watch.place = await self._room.reads.place.ask(self._job_id) or b""
        return self._moved()

    def _moved(self) -> bytes:
        """Where it stands, if it was told another place."""
        if self._watch.in_line is None or self._place == self._watch.place:
            return b""
        self._place = self._watch.place
        return self._place

    async def _last_words(self) -> bytes:
        """Nothing after the last event; else why the stream ends before it."""
        if self._watch.refused:
            answer = await self._call.ask()
            if answer.status >= 400:
                return problem_event(answer.json())
        return b"" if self._ended else LEAVING

    async def _write(self, text: bytes) -> None:
        if text:
            await self._within({"type": "http.response.body", "body": text, "more_body": True})

    async def _within(self, message: Message) -> None:
        """Send, unless the client does not read: then it counts as gone."""
        try:
            async with asyncio.timeout(WRITE_S):
                await self._send(message)
        except TimeoutError:
            self._watch.gone = True
