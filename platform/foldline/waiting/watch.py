"""One caller's wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

from foldline.tenants.services import Caller
from foldline.waiting.bridge import Receive


@dataclass(kw_only=True, eq=False, slots=True)
class Watch:
    """`known`: the mark that the caller was shown, by job. `in_line`: the job whose place the
    caller is to be told. What may happen meanwhile: `gone`, the client has left; `refused`, its
    key has ended; `leaving`, the process ends."""

    jobs: set[UUID] = field(default_factory=set)
    known: dict[UUID, str] = field(default_factory=dict)
    caller: Caller | None = None
    in_line: UUID | None = None
    place: bytes = b""
    gone: bool = False
    refused: bool = False
    leaving: bool = False
    _changed: set[UUID] = field(default_factory=set)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def disturbed(self) -> bool:
        """Whether waiting on is of no use."""
        return self.gone or self.refused or self.leaving

    async def woken(self, until: float) -> bool:
        """Wait; False when the time (of `time.monotonic`) is over or the wait is disturbed."""
        if self.disturbed:
            return False
        try:
            async with asyncio.timeout(until - monotonic()):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return not self.disturbed

    def changed(self) -> set[UUID]:
        """The jobs that have changed since this was asked last."""
        changed, self._changed = self._changed, set()
        return changed

    def wake(self, job_id: UUID) -> None:
        self._changed.add(job_id)
        self._woken.set()

    def move(self, place: bytes) -> None:
        """It stands elsewhere now; a place that was not told yet is replaced."""
        if place != self.place:
            self.place = place
            self._woken.set()

    def refuse(self) -> None:
        self.refused = True
        self._woken.set()

    def leave(self) -> None:
        self.leaving = True
        self._woken.set()

    async def until_gone(self, receive: Receive) -> None:
        """Notice that the client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self._woken.set()
