"""Waiting for jobs, on a server that waits with the caller and on one that answers at once.

One open job is asked for by long-poll: the answer comes when the job changes. An `ETag` on it
says that the server can do that; it stands for what is waited for, so one that has not changed
in an answer before the time is up says that it does not. Then, and for several open jobs, each
is asked for again when its `poll_after_s` is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from foldline.client.asks import ORDINARY_S, Ask, Flow, Pause, Reply, place
from foldline.client.calling import Calling, read_reply
from foldline.client.errors import Refused, TimedOut
from foldline.client.shapes import Job

LONGEST_S = 45
"""Of one long-poll; proxies cut what is silent for a minute."""
IN_LINE_S = 15
"""The same while it is queued: its place and times move without a change that is waited for."""
APART_S = 1.0
"""Between two long-polls, so that a job that changes all the time is not asked for all the time."""
SHARE_S = 0.2
"""Per open job: those who wait for many ask five times a second at most."""

NO_SEAT = frozenset({"too_many_waits", "waiting_room_full"})
"""As many wait as may: who is refused for that asks without waiting."""

Mode = Literal["any", "all"]
Seen = Callable[[Sequence[Job]], None]


def unseen(_jobs: object) -> None:
    """For who only wants to know the end."""


@dataclass(kw_only=True)
class Watched:
    """A job as last seen. `since`: when that was; `waits`: the server holds an answer back
    until the job changes."""

    job: Job
    since: float
    etag: str = ""
    waits: bool = True

    def due(self, still_open: int) -> float:
        """When asking again makes sense."""
        if still_open == 1 and self.waits:
            return self.since + APART_S
        return self.since + max(self.job.poll_after_s or 0.0, SHARE_S * still_open)

    def note(self, reply: Reply, *, asked: float, answered: float, wait_s: int) -> None:
        etag = reply.headers.get("etag", "")
        early = answered < asked + wait_s - 1
        self.waits = bool(etag) and not (early and etag == self.etag)
        self.since = asked if self.waits else answered
        self.job, self.etag = read_reply(Job, reply), etag


def watch(
    calling: Calling, jobs: Sequence[Job | str], *, mode: Mode, timeout_s: float | None, seen: Seen
) -> Flow[list[Job]]:
    """The jobs as they are once all have ended (`mode` any: once one has), in the same order.

    `seen` is called with all of them at first and after each look. Raises TimedOut.
    """
    began = calling.clock()
    until = math.inf if timeout_s is None else began + timeout_s
    watched: list[Watched] = []
    for each in jobs:
        job = each if isinstance(each, Job) else (yield from _job(calling, each))
        watched.append(Watched(job=job, since=began - APART_S))
    while True:
        as_seen = [each.job for each in watched]
        seen(as_seen)
        still_open = [each for each in watched if not each.job.ended]
        if not still_open or (mode == "any" and len(still_open) < len(watched)):
            return as_seen
        if calling.clock() >= until:
            raise TimedOut(as_seen, seconds=timeout_s or 0)
        yield from _look(calling, still_open, until=until)


def _job(calling: Calling, job_id: str) -> Flow[Job]:
    return calling.told(Job, Ask(method="GET", path=place("jobs", job_id)))


def _look(calling: Calling, still_open: Sequence[Watched], *, until: float) -> Flow[None]:
    """Pause until a job is due, and ask for it; pause only, if none is due in time."""
    count = len(still_open)
    first = min(still_open, key=lambda each: each.due(count))
    now, due = calling.clock(), first.due(count)
    if due > now:
        yield Pause(seconds=min(due, until) - now)
        now = calling.clock()
    if due > until:
        return
    alone = count == 1 and first.waits
    wait_s = _wait_s(first.job, until - now) if alone else 0
    ask = Ask(method="GET", path=place("jobs", first.job.id))
    reply = yield from held(calling, ask, {"wait": str(wait_s)} if wait_s else {}, wait_s=wait_s)
    first.note(reply, asked=now, answered=calling.clock(), wait_s=wait_s)


def held(calling: Calling, ask: Ask, wait: Mapping[str, str], *, wait_s: int) -> Flow[Reply]:
    """The answer to a long-poll; where no seat is free, to the same question without waiting."""
    try:
        long = replace(ask, query=wait, silence_s=ORDINARY_S + wait_s)
        return (yield from calling.call(long, unless=NO_SEAT))
    except Refused as refused:
        if refused.code not in NO_SEAT:
            raise
    return (yield from calling.call(ask))


def _wait_s(job: Job, left_s: float) -> int:
    longest = IN_LINE_S if job.state == "queued" else LONGEST_S
    return int(min(longest, max(0.0, left_s)))
