"""`POST /v1/models/{model}/jobs` with `Prefer: wait=n`: the result, if it comes in time."""

from __future__ import annotations

import re
from time import monotonic
from uuid import UUID

from foldline.errors import TooManyWaits, WaitingRoomFull
from foldline.waiting.bridge import Send
from foldline.waiting.calls import Call
from foldline.waiting.held import Held
from foldline.waiting.polls import MOST_WAIT_S
from foldline.waiting.room import Room

# One preference (RFC 7240): a token, perhaps a value, perhaps parameters.
_WAIT = re.compile(r"""\s*wait\s*=\s*("?)(\d{1,9})\1\s*(?:;.*)?""", re.IGNORECASE | re.ASCII)
_NAMED_WAIT = re.compile(r"\s*wait\s*(?:[=;].*)?", re.IGNORECASE | re.ASCII | re.DOTALL)
_KEPT = (b"location", b"idempotency-replayed")
_NOT_OF_THE_JOB = ("database_unavailable", "key_refused", "job_not_found")


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
    """Whatever happens while it waits, a job that was accepted is answered as accepted."""
    until = monotonic() + seconds
    accepted = await call.send_in()
    caller = call.visit.caller
    if accepted.status != 202 or caller is None or "read" not in caller.scopes:
        return accepted
    job_id = UUID(accepted.json()["id"])
    try:
        with room.watch(job_id) as watch:
            room.seat(watch, caller)
            async with call.leaving(watch):
                ended = await room.ended_of(watch, [job_id], mode="any", until=until)
    except (TooManyWaits, WaitingRoomFull):
        return accepted  # a preference need not be met
    here = f"/v1/jobs/{job_id}"
    answer = await call.ask_for(f"{here}/result" if ended else here)
    if answer.status >= 400 and answer.json()["code"] in _NOT_OF_THE_JOB:
        return accepted
    if not ended:
        answer.status = 202
    kept = [(name, value) for name, value in accepted.headers if name in _KEPT]
    answer.headers += [*kept, (b"preference-applied", b"wait=%d" % seconds)]
    return answer
