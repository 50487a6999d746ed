"""The waiting room: who waits for which jobs, and what wakes them. No thread is held.

News wakes those who wait for a job; reading the jobs' marks, all in one query, wakes those for
whom news was lost, at a slow pace while news comes and at a quick one while it does not. Whoever
is woken asks for itself what has happened: to be woken for nothing does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Literal
from uuid import UUID

from django.conf import settings
from prometheus_client import Gauge

from foldline.errors import TooManyWaits, WaitingRoomFull
from foldline.jobs.marks import Mark
from foldline.tenants.services import Caller
from foldline.waiting.hearing import Hearing
from foldline.waiting.reads import Reads
from foldline.waiting.together import Unanswered
from foldline.waiting.watch import Watch

log = logging.getLogger(__name__)

BEAT_S = 0.6  # between two readings while there is no news
SOON_S = 0.1  # after one that found a change
SAFETY_S = 5.0  # and while there is
MOST_OF_TIME = 0.05  # that readings take, however many wait
KEYS_S = 2.0
POSITIONS_S = 10.0
RETRY_AFTER_S = 5

Mode = Literal["any", "all"]

WAITS = Gauge("foldline_waits", "Callers who wait", multiprocess_mode="livesum")


class Room:
    """One in a process."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self._watches: dict[UUID, set[Watch]] = {}
        self._open: set[Watch] = set()
        self._seats: Counter[UUID] = Counter()
        self._tasks: list[asyncio.Task[None]] = []
        self._look_now = asyncio.Event()
        self._hearing = Hearing(settings.EVENTS_URL, heard=self._heard, turned=self._look_now.set)
        self._anybody = asyncio.Event()
        self.leaving = False

    @property
    def waits(self) -> int:
        """How many wait now."""
        return len(self._open)

    @contextmanager
    def watch(self, *jobs: UUID) -> Iterator[Watch]:
        """Wait for these jobs until the end of the block. Raises WaitingRoomFull."""
        if len(self._open) >= settings.MOST_WAITS:
            raise WaitingRoomFull(retry_after_s=RETRY_AFTER_S)
        watch = Watch(leaving=self.leaving)
        self._open.add(watch)
        self._anybody.set()
        self._begin()
        try:
            self.follow(watch, *jobs)
            yield watch
        finally:
            self._forget(watch)

    def follow(self, watch: Watch, *jobs: UUID) -> None:
        """Have it woken by these jobs, too."""
        for job_id in jobs:
            watch.jobs.add(job_id)
            self._watches.setdefault(job_id, set()).add(watch)

    def seat(self, watch: Watch, caller: Caller | None) -> None:
        """Let the caller keep its place. Raises TooManyWaits."""
        if caller is None:
            return
        if self._seats[caller.tenant_id] >= settings.MOST_WAITS_OF_TENANT:
            most = settings.MOST_WAITS_OF_TENANT
            raise TooManyWaits(
                f"{most} calls of yours wait here already.", retry_after_s=RETRY_AFTER_S
            )
        watch.caller = caller
        self._seats[caller.tenant_id] += 1
        WAITS.inc()

    def _forget(self, watch: Watch) -> None:
        self._open.discard(watch)
        for job_id in watch.jobs:
            others = self._watches[job_id]
            others.discard(watch)
            if not others:
                del self._watches[job_id]
        if watch.caller is not None:
            WAITS.dec()
            self._seats[watch.caller.tenant_id] -= 1
            if not self._seats[watch.caller.tenant_id]:
                del self._seats[watch.caller.tenant_id]
        if not self._open:
            self._anybody.clear()

    def leave(self) -> None:
        """The process ends: everybody is answered as things stand."""
        self.leaving = True
        for watch in self._open:
            watch.leave()

    async def close(self) -> None:
        """Stop reading and hearing."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def ended(
        self, jobs: Collection[UUID], *, mode: Mode, timeout_s: float, caller: Caller | None = None
    ) -> frozenset[UUID]:
        """See `inside.Ended`."""
        with self.watch(*jobs) as watch:
            self.seat(watch, caller)
            return await self.ended_of(watch, jobs, mode=mode, until=monotonic() + timeout_s)

    async def ended_of(
        self, watch: Watch, jobs: Collection[UUID], *, mode: Mode, until: float
    ) -> frozenset[UUID]:
        """The same for a watch that is open; it returns early when the watch is disturbed."""
        wanted = len(jobs) if mode == "all" else min(1, len(jobs))
        ended: set[UUID] = set()
        changed = set(jobs)
        while True:
            ended |= await self._ended_among(watch, changed - ended)
            if len(ended) >= wanted or watch.disturbed or not await watch.woken(until):
                return frozenset(ended)
            changed = watch.changed() & set(jobs)

    async def _ended_among(self, watch: Watch, jobs: Collection[UUID]) -> set[UUID]:
        try:
            marks = await self.reads.mark.ask_all(jobs)
        except Unanswered:
            marks = {}  # known as they are not: the next reading that succeeds wakes it
        watch.known |= {job_id: marks[job_id].tag if job_id in marks else "" for job_id in jobs}
        return {job_id for job_id, mark in marks.items() if mark.ended}

    def _heard(self, job_id: UUID) -> None:
        for watch in self._watches.get(job_id, ()):
            watch.wake(job_id)

    def _begin(self) -> None:
        if not self._tasks:
            beats = (self._hearing.run, self._look_again, self._look_at_keys, self._look_ahead)
            self._tasks = [asyncio.create_task(_keep(beat)) for beat in beats]

    async def _look_again(self) -> None:
        """Wake those whose job has another mark than they know. Changes come in bursts: after one
        the next look is soon."""
        pace_s = BEAT_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SAFETY_S if self._hearing.up else pace_s):
                    await self._look_now.wait()
            self._look_now.clear()
            await self._anybody.wait()
            pace_s = BEAT_S
            with suppress(Unanswered):
                if self._compare(await self.reads.marks(self._watches)):
                    pace_s = SOON_S
                pace_s = min(SAFETY_S, max(pace_s, self.reads.marks_took_s / MOST_OF_TIME))

    def _compare(self, marks: Mapping[UUID, Mark]) -> bool:
        """Whether anybody was woken."""
        woken = False
        for job_id, watches in self._watches.items():
            mark = marks.get(job_id)
            tag = mark.tag if mark else ""
            for watch in watches:
                if watch.known.get(job_id, tag) != tag:
                    watch.wake(job_id)
                    woken = True
        return woken

    async def _look_at_keys(self) -> None:
        """Wake those whose key has ended."""
        while True:
            await asyncio.sleep(KEYS_S)
            await self._anybody.wait()
            keys = {watch.caller.key_id for watch in self._open if watch.caller is not None}
            with suppress(Unanswered):
                ended = await self.reads.ended_keys(keys)
                for watch in self._open if ended else ():
                    if watch.caller is not None and watch.caller.key_id in ended:
                        watch.refuse()

    async def _look_ahead(self) -> None:
        """Tell those in a line where they stand, if that is not where they stood."""
        while True:
            await asyncio.sleep(POSITIONS_S)
            await self._anybody.wait()
            lined_up = {watch.in_line for watch in self._open if watch.in_line is not None}
            with suppress(Unanswered):
                places = await self.reads.places(lined_up)
                for watch in self._open:
                    if watch.in_line is not None and (place := places.get(watch.in_line)):
                        watch.move(place)


async def _keep(beat: Callable[[], Awaitable[None]]) -> None:
    """Begin again whatever broke: others are still waiting."""
    while True:
        try:
            await beat()
        except Exception:
            log.exception("a beat of the waiting room broke")
            await asyncio.sleep(BEAT_S)
