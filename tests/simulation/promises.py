"""What must hold at every commit, whoever was killed when (docs/guarantees.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from uuid import UUID

from foldline.jobs.states import OPEN, TERMINAL, State, may_follow
from tests.simulation.tables import Fence, Row

OPEN_LIMIT = 4
"""How many open jobs a tenant may have."""


class Broken(Exception):
    """A promise did not hold; the text begins with its number."""


class Promises:
    """Watches the commits and the answers. `met` counts what a schedule came through."""

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()
        self._accepted: set[UUID] = set()
        self._by_key: dict[tuple[UUID, str], UUID] = {}
        self._open: Counter[UUID] = Counter()
        self._attempts: Counter[UUID] = Counter()
        self._results: Counter[UUID] = Counter()
        self._cancel_answered: set[UUID] = set()

    def created(self, row: Row) -> None:
        call = row.call
        if call.key and self._by_key.setdefault((call.tenant, call.key), row.id) != row.id:
            raise Broken(f"P2, P10: the key {call.key!r} made two jobs")
        self._open[call.tenant] += 1
        if self._open[call.tenant] > OPEN_LIMIT:
            raise Broken("P6: a tenant has more open jobs than its limit")

    def moved(self, row: Row, before: State) -> None:
        after = row.state
        self.met[after] += 1
        if before in TERMINAL:
            raise Broken(f"P5: a job went from {before} to {after}")
        if not may_follow(before, after):
            raise Broken(f"the table of states has no step from {before} to {after}")
        if after in TERMINAL:
            self._open[row.call.tenant] -= 1
        if after is State.RUNNING:
            self._claimed(row)

    def _claimed(self, row: Row) -> None:
        if row.id in self._cancel_answered:
            raise Broken("P7: claimed after a cancel was answered")
        if row.attempt <= self._attempts[row.id]:
            raise Broken("P8: an attempt number came twice")
        self._attempts[row.id] = row.attempt

    def answered(self, row: Row, *, payload: int) -> None:
        """A caller has read 202 with this job."""
        self._accepted.add(row.id)
        if row.call.payload != payload:
            raise Broken("P2: another payload was answered with the job of a key")

    def cancel_answered(self, row: Row) -> None:
        """A caller has read the answer to a cancel."""
        if row.state not in TERMINAL or row.state is State.CANCELLED:
            self._cancel_answered.add(row.id)

    def written(self, fence: Fence) -> None:
        """A worker's write has changed a row."""
        if fence.attempt != self._attempts[fence.job]:
            raise Broken("P8: a stale attempt wrote")

    def finished(self, fence: Fence, *, stored: bool) -> None:
        """A result was recorded."""
        self._results[fence.job] += 1
        if self._results[fence.job] > 1:
            raise Broken("P3: two results of one job counted")
        if not stored:
            raise Broken("P4: succeeded before its files were durable")

    def acknowledged(self, *, recorded: bool) -> None:
        """A worker has given a ticket back."""
        if not recorded:
            raise Broken("P4: a ticket was acknowledged before its outcome was durable")

    def lease(self, row: Row, *, at_most: float) -> None:
        if row.lease_until > at_most:
            raise Broken("a lease was taken by another clock than the database's")

    def lost(self, *, blameless: bool) -> None:
        """The sweeper has taken a job from its worker."""
        self.met["lost"] += 1
        if blameless:
            raise Broken("an outage of the database cost an attempt")

    def heard_of_cancel(self, *, beats_since: int) -> None:
        if beats_since > 1:
            raise Broken("P7: a cancelled job ran on after a heartbeat")

    def drained(self, rows: Iterable[Row]) -> None:
        """All faults are healed and time has passed."""
        left = Counter(row.state for row in rows)
        if self._accepted - {row.id for row in rows}:
            raise Broken("P1: an accepted job is gone")
        if any(left[state] for state in OPEN):
            raise Broken("P1: a job never came to an end")
