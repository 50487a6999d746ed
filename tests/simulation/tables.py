"""The database of the simulation: rows, a clock, outages. Every commit has a watcher."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from foldline.jobs.states import State

NEVER = float("inf")


class DatabaseAway(Exception):
    """The database does not answer."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What every write of a worker carries."""

    job: UUID
    attempt: int
    owner: str


@dataclass(slots=True, eq=False)
class Call:
    """A submit on its way. `seen` is for protocols that decide by what they read earlier."""

    tenant: UUID
    key: str
    payload: int
    priority: str = "interactive"
    start_by: float = NEVER
    seen: object = None


@dataclass(slots=True, eq=False)
class Row:
    """A job. Times are seconds of the database's clock."""

    id: UUID
    call: Call
    state: State = State.QUEUED
    attempt: int = 0
    owner: str = ""
    lease_until: float = 0.0
    not_before: float = 0.0
    start_by: float = NEVER
    cancel_requested: bool = False
    outcomes: list[str] = field(default_factory=list)
    """The codes its attempts ended with."""

    def claimable(self, now: float) -> bool:
        return self.state is State.QUEUED and self.not_before <= now and self.start_by > now


class Watcher(Protocol):
    """Sees every commit."""

    def created(self, row: Row) -> None: ...

    def moved(self, row: Row, before: State) -> None: ...


@dataclass(slots=True, eq=False)
class Tables:
    """All rows in the order they were made."""

    watcher: Watcher
    rows: dict[UUID, Row] = field(default_factory=dict)
    by_key: dict[tuple[UUID, str], Row] = field(default_factory=dict)
    now: float = 0.0
    up: bool = True

    def insert(self, call: Call) -> Row:
        row = Row(UUID(int=len(self.rows) + 1), call, start_by=call.start_by)
        self.rows[row.id] = row
        if call.key:
            self.by_key.setdefault((call.tenant, call.key), row)
        self.watcher.created(row)
        return row

    def move(self, row: Row, target: State) -> None:
        before, row.state = row.state, target
        self.watcher.moved(row, before)

    def reach(self) -> None:
        """What each statement does first. Raises DatabaseAway."""
        if not self.up:
            raise DatabaseAway
