"""What happens to a job as server-sent events (the text format of HTML's `EventSource`).

`state`: every change of state, numbered as it was written down, so that a stream that broke
off goes on without a gap. `progress`: how far the job is now; what came in between is not kept.
`position`: where it stands now, without a number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Self
from uuid import UUID

import orjson

from foldline.forecasts.prospects import Prospect
from foldline.forecasts.reading import prospect_of
from foldline.jobs.events import Happened, events_of
from foldline.jobs.marks import Mark, marks_of
from foldline.jobs.models import Job
from foldline.jobs.states import State

MEDIA_TYPE = "text/event-stream"
RETRY = b"retry: 2000\n\n"

_ID = re.compile(r"(\d{1,9})(?:-([0-9a-f]{8}))?", re.ASCII)
_SENT = re.compile(rb"^id: (\S+)$", re.MULTILINE)

# What is written down of a job, by the state it is in afterwards. The rest is for admins.
_STATES = {
    **{state.value: state for state in State},
    "cancel_requested": State.RUNNING,
    "promoted": State.QUEUED,
}
_TOLD = ("attempt", "code", "coalesced_with")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """How far a reader is: the number of the last state it was told, and which progress."""

    sequence: int = 0
    progress: str = ""

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Of the `id` of an event; None when it is none of ours."""
        found = _ID.fullmatch(text)
        return cls(sequence=int(found[1]), progress=found[2] or "") if found else None

    @classmethod
    def after(cls, sent: bytes) -> Self | None:
        """Of the last event in what was sent."""
        ids = _SENT.findall(sent)
        return cls.read(ids[-1].decode()) if ids else None

    def __str__(self) -> str:
        return f"{self.sequence}-{self.progress}" if self.progress else str(self.sequence)


START = Cursor()


@dataclass(frozen=True, kw_only=True, slots=True)
class Telling:
    """What is to be told after a cursor, and how far the reader is then. `last`: the number of
    the last that was written down."""

    text: bytes
    cursor: Cursor
    mark: Mark
    last: int


def tellings(asked: Collection[tuple[UUID, Cursor]]) -> dict[tuple[UUID, Cursor], Telling]:
    """What readers who are so far have not been told yet; two queries, however many. Jobs that
    are gone are missing."""
    # The marks first: a change that comes between the two is told, and seen again by its mark.
    marks = marks_of({job_id for job_id, _ in asked})
    events = events_of(marks)
    return {
        (job_id, cursor): _telling(marks[job_id], events[job_id], cursor)
        for job_id, cursor in asked
        if job_id in marks
    }


def _telling(mark: Mark, events: Collection[Happened], cursor: Cursor) -> Telling:
    text = b""
    for event in events:
        if event.sequence > cursor.sequence and event.kind in _STATES:
            cursor = replace(cursor, sequence=event.sequence)
            text += _sent("state", _state_body(event), number=str(event.sequence))
    if mark.progress is not None:
        digest = blake2b(orjson.dumps(mark.progress), digest_size=4).hexdigest()
        if digest != cursor.progress:
            cursor = replace(cursor, progress=digest)
            text += _sent("progress", mark.progress, number=str(cursor))
    last = max((event.sequence for event in events), default=0)
    return Telling(text=text, cursor=cursor, mark=mark, last=last)


def _state_body(event: Happened) -> dict[str, Any]:
    body = {"state": _STATES[event.kind], "at": event.at}
    if event.kind == "cancel_requested":
        body["cancelling"] = True
    return body | {name: event.data[name] for name in _TOLD if name in event.data}


def positions(jobs: Collection[UUID]) -> dict[UUID, bytes]:
    """The event that tells where a job stands, for those of the jobs that wait."""
    needed = (
        *("id", "tenant_id", "revision_id", "priority", "state", "input_size"),
        *("not_before", "started_at"),
    )
    waiting = Job.objects.filter(id__in=jobs, state=State.QUEUED).select_related("attached_to")
    now = datetime.now(UTC)
    return {
        job.id: _sent("position", _position_body(prospect_of(job, now=now)))
        for job in waiting.only(*needed, *(f"attached_to__{name}" for name in needed))
    }


def _position_body(prospect: Prospect) -> dict[str, Any]:
    told = ("position", "ahead_gpu_s", "start_p50", "start_p90", "finish_p50", "finish_p90")
    return {name: getattr(prospect, name) for name in told}


def problem_event(body: Mapping[str, Any]) -> bytes:
    """The event that ends a stream early; `body` is a problem."""
    return _sent("error", body)


def _sent(kind: str, body: Mapping[str, Any], *, number: str = "") -> bytes:
    text = orjson.dumps(body, option=orjson.OPT_UTC_Z)
    name = f"id: {number}\n" if number else ""
    return f"{name}event: {kind}\ndata: ".encode() + text + b"\n\n"
