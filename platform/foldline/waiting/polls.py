"""Long polls: an answer that comes when there is something new to say."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

from foldline.jobs.marks import Mark
from foldline.jobs.states import OPEN
from foldline.waiting.bridge import Scope, Send
from foldline.waiting.calls import Call
from foldline.waiting.held import Held
from foldline.waiting.room import Mode, Room
from foldline.waiting.together import Unanswered
from foldline.waiting.watch import Watch

MODES: Mapping[str, Mode] = {"any": "any", "all": "all"}
AWAY = 503
"""The status of an answer without the database. It ends no wait that has begun."""


async def poll_job(call: Call, _send: Send, *, room: Room, job_id: UUID, seconds: int) -> Held:
    """`GET /v1/jobs/{id}?wait=n`"""
    until = monotonic() + seconds
    with room.watch(job_id) as watch:
        answer = await call.ask()
        unchanged = answer.status == 304
        if not unchanged and (answer.status != 200 or call.header(b"if-none-match")):
            return answer
        room.seat(watch, call.visit.caller)
        async with call.leaving(watch):
            tag = watch.known[job_id] = answer.header(b"etag").decode()
            while True:
                # Also before it waits: what changed before the news of it could be heard.
                mark = await _seen(room, watch, job_id)
                if mark is not None and mark.tag == tag and mark.ended:
                    return answer
                if mark is not None and mark.tag != tag:
                    answer = await call.ask()
                    if _is_news(answer, tag):
                        return answer
                if not await watch.woken(until):
                    return await call.ask()


async def _seen(room: Room, watch: Watch, job_id: UUID) -> Mark | None:
    """The job's mark; None while nobody knows, and when the job is gone: Django will say so."""
    try:
        mark = await room.reads.mark.ask(job_id)
    except Unanswered:
        return None
    if mark is not None and mark.run_id is not None:
        room.follow(watch, mark.run_id)
    return mark


def _is_news(answer: Held, tag: str) -> bool:
    same = answer.status == 200 and answer.header(b"etag").decode() == tag
    return not same and answer.status not in (304, AWAY)


async def poll_batch(call: Call, _send: Send, *, room: Room, mode: Mode, seconds: int) -> Held:
    """`GET /v1/batches/{id}?wait=any|all`"""
    until = monotonic() + seconds
    with room.watch() as watch:
        answer = await call.ask()
        # Who knows it as it is waits all the same; which jobs are open, only the whole tells.
        whole = await call.ask_for(call.scope["path"]) if answer.status == 304 else answer
        jobs = open_jobs(whole.json()) if whole.status == 200 else set()
        if not jobs:
            return answer
        room.seat(watch, call.visit.caller)
        room.follow(watch, *jobs)
        async with call.leaving(watch):
            await room.ended_of(watch, jobs, mode=mode, until=until)
            return await call.ask()


def open_jobs(batch: dict[str, Any]) -> set[UUID]:
    """Of a batch as it was answered."""
    jobs = (each["job"] for each in batch["jobs"] if each["job"] is not None)
    return {UUID(job["id"]) for job in jobs if job["state"] in OPEN}


def asked(scope: Scope) -> dict[str, str]:
    """The query. What is wrong with it is Django's to say, when it is asked."""
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
