"""A submit with `Prefer: wait=n`: of a job, or of a batch. What came of it, if it ends in time."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import monotonic
from typing import Any
from uuid import UUID

from foldline.errors import TooManyWaits, WaitingRoomFull
from foldline.numbers import MOST_WAIT_S
from foldline.waiting.bridge import Send
from foldline.waiting.calls import Call
from foldline.waiting.held import Held
from foldline.waiting.polls import open_jobs
from foldline.waiting.room import Room

# One preference (RFC 7240): a token, perhaps a value, perhaps parameters.
_WAIT = re.compile(r"""\s*wait\s*=\s*("?)(\d{1,9})\1\s*(?:;.*)?""", re.IGNORECASE | re.ASCII)
_NAMED_WAIT = re.compile(r"\s*wait\s*(?:[=;].*)?", re.IGNORECASE | re.ASCII | re.DOTALL)
_KEPT = (b"location", b"idempotency-replayed")
_NOT_OF_THE_JOB = ("database_unavailable", "key_refused", "job_not_found", "batch_not_found")


def preferred_wait(header: bytes) -> int | None:
    """Seconds that `Prefer` asks to wait, at most 50; None when it does not, or makes no sense.

    Of a preference that comes twice only the first counts; one that cannot be read is ignored.
    """
    for preference in header.decode("latin-1").split(","):
        if _NAMED_WAIT.fullmatch(preference):
            found = _WAIT.fullmatch(preference)
            return min(int(found[2]), MOST_WAIT_S) or None if found else None
    return None


async def submit(call: Call, _send: Send, *, room: Room, seconds: int) -> Held:
    """A job: its result, once it has ended."""
    return await _waited(call, room, seconds, jobs_of=_the_job, ended_at="result")


async def submit_batch(call: Call, _send: Send, *, room: Room, seconds: int) -> Held:
    """A batch: the batch, once all its jobs have ended."""
    return await _waited(call, room, seconds, jobs_of=open_jobs, ended_at="self")


def _the_job(body: dict[str, Any]) -> set[UUID]:
    return {UUID(body["id"])}


async def _waited(
    call: Call,
    room: Room,
    seconds: int,
    *,
    jobs_of: Callable[[dict[str, Any]], set[UUID]],
    ended_at: str,
) -> Held:
    """Whatever happens while it waits, what was accepted is answered as accepted. `ended_at`:
    which of its addresses answers when the wait was long enough."""
    until = monotonic() + seconds
    accepted = await call.send_in()
    caller = call.visit.caller
    if accepted.status != 202 or caller is None or "read" not in caller.scopes:
        return accepted
    body = accepted.json()
    jobs = jobs_of(body)
    try:
        with room.watch(*jobs) as watch:
            room.seat(watch, caller)
            async with call.leaving(watch):
                ended = await room.ended_of(watch, jobs, mode="all", until=until) >= jobs
    except (TooManyWaits, WaitingRoomFull):
        return accepted  # a preference need not be met
    answer = await call.ask_for(body["urls"][ended_at if ended else "self"])
    if answer.status >= 400 and answer.json()["code"] in _NOT_OF_THE_JOB:
        return accepted
    if not ended:
        answer.status = 202
    kept = [(name, value) for name, value in accepted.headers if name in _KEPT]
    own = [(name, value) for name, value in answer.headers if name != b"allow"]  # of the `GET`
    answer.headers = [*own, *kept, (b"preference-applied", b"wait=%d" % seconds)]
    return answer
