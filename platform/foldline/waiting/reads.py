"""What the waiting room reads of the database: in one query for all who ask, on one of Django's
threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar
from uuid import UUID

from django import db
from django.core import signals

from foldline.jobs.marks import Mark, marks_of
from foldline.notify.stream import Cursor, Telling, positions, tellings
from foldline.tenants.services import ended_keys
from foldline.waiting.bridge import Bridge
from foldline.waiting.together import Together, Unanswered

log = logging.getLogger(__name__)

A = TypeVar("A")
T = TypeVar("T")


class Reads:
    """Each raises Unanswered while the database does not answer."""

    def __init__(self, django: Bridge) -> None:
        self._django = django
        self.mark: Together[UUID, Mark] = Together(self.marks)
        self.place: Together[UUID, bytes] = Together(self.places)
        self.telling: Together[tuple[UUID, Cursor], Telling] = Together(self._tellings)

    async def marks(self, jobs: Collection[UUID]) -> Mapping[UUID, Mark]:
        return await self._read(marks_of, list(jobs))

    async def places(self, jobs: Collection[UUID]) -> Mapping[UUID, bytes]:
        """Of those that wait."""
        return await self._read(positions, list(jobs)) if jobs else {}

    async def ended_keys(self, keys: Collection[UUID]) -> set[UUID]:
        return await self._read(ended_keys, list(keys)) if keys else set()

    async def _tellings(
        self, readers: Collection[tuple[UUID, Cursor]]
    ) -> Mapping[tuple[UUID, Cursor], Telling]:
        return await self._read(tellings, list(readers))

    async def _read(self, read: Callable[[list[A]], T], asked: list[A]) -> T:
        try:
            return await self._django.run(lambda: _as_a_request(lambda: read(asked)))
        except db.Error as error:
            log.debug("waits cannot read", extra={"reason": " ".join(str(error).split())})
            raise Unanswered from error


def _as_a_request(work: Callable[[], T]) -> T:
    """Django looks after a thread's connection when a request begins and when it ends."""
    signals.request_started.send(sender=Reads)
    try:
        return work()
    finally:
        signals.request_finished.send(sender=Reads)
