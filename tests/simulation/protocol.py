"""The verbs of `foldline.jobs.services` over the simulation's rows.

What may follow what, what a failure leads to and who goes next are the real functions; only
the guarded UPDATEs around them are written again, one atomic step each.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from foldline.jobs.retries import like, verdict
from foldline.jobs.states import OPEN, State, sources_of
from foldline.scheduling.fairness import Accounts, Head, next_job
from tests.simulation.promises import OPEN_LIMIT, Promises
from tests.simulation.tables import NEVER, Call, Fence, Row, Tables

HEARTBEAT_S = 5.0
LEASE_S = 20.0
MAX_ATTEMPTS = 3
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

MAY_SUCCEED = sources_of(State.SUCCEEDED)
MAY_EXPIRE = sources_of(State.EXPIRED)
MAY_RUN = sources_of(State.RUNNING)


class Refused(Exception):
    """The submit was answered with 422 or 429: no job."""


class Fenced(Exception):
    """You are no longer the one."""


class Protocol:
    """Each verb is one commit. Raises DatabaseAway while the database is down."""

    def __init__(self, tables: Tables, promises: Promises) -> None:
        self.tables = tables
        self.promises = promises
        self._accounts: Accounts = {}

    def look(self, call: Call) -> None:
        """What a submit reads before it commits: nothing."""

    def submit(self, call: Call) -> tuple[Row, bool]:
        """The job of a call and whether it is new. Raises Refused."""
        self.tables.reach()
        if (known := self._known(call)) is not None:
            if known.call.payload != call.payload:
                raise Refused
            return known, False
        if self._open(call) >= OPEN_LIMIT:
            raise Refused
        return self.tables.insert(call), True

    def _known(self, call: Call) -> Row | None:
        return self.tables.by_key.get((call.tenant, call.key)) if call.key else None

    def _open(self, call: Call) -> int:
        mine = (row for row in self.tables.rows.values() if row.call.tenant == call.tenant)
        return sum(row.state in OPEN for row in mine)

    def claim(self, owner: str, *, clock: float) -> Fence | None:
        """Take the next job; `clock` is what the worker's own clock says."""
        self.tables.reach()
        now = EPOCH + timedelta(seconds=self.tables.now)
        choice = next_job(self._accounts, self._heads(), now=now)
        if choice is None:
            return None
        self._accounts = choice.accounts
        row = self.tables.rows[choice.head.job_id]
        row.attempt += 1
        row.owner = owner
        self._prolong(row, clock=clock)
        self.tables.move(row, State.RUNNING)
        return Fence(row.id, row.attempt, owner)

    def claimable(self) -> Iterable[Row]:
        now = self.tables.now
        return (
            row for row in self.tables.rows.values() if row.state in MAY_RUN and row.claimable(now)
        )

    def _heads(self) -> list[Head]:
        heads: dict[tuple[object, str], Head] = {}
        for row in self.claimable():
            flow = (row.call.tenant, row.call.priority)
            if flow not in heads:
                heads[flow] = Head(
                    job_id=row.id,
                    attempt=row.attempt,
                    tenant_id=row.call.tenant,
                    priority=row.call.priority,
                    estimate_gpu_s=None,
                )
        return list(heads.values())

    def heartbeat(self, fence: Fence, *, clock: float) -> bool:
        """Prolong the lease; True when the caller asked to cancel. Raises Fenced."""
        row = self._held(fence)
        self._prolong(row, clock=clock)
        self.promises.written(fence)
        return row.cancel_requested

    def _prolong(self, row: Row, *, clock: float) -> None:
        row.lease_until = self._lease_from(clock) + LEASE_S
        self.promises.lease(row, at_most=self.tables.now + LEASE_S)

    def _lease_from(self, clock: float) -> float:
        del clock  # a worker's clock may be wrong; the database's is the one they share
        return self.tables.now

    def _held(self, fence: Fence, states: Iterable[State] = (State.RUNNING,)) -> Row:
        self.tables.reach()
        row = self.tables.rows[fence.job]
        if not self._is_mine(row, fence) or row.state not in states:
            self.promises.met["fenced"] += 1
            raise Fenced
        return row

    def _is_mine(self, row: Row, fence: Fence) -> bool:
        return row.attempt == fence.attempt and row.owner == fence.owner

    def finish(self, fence: Fence, *, stored: bool) -> None:
        """Record the result, also of a job that was lost meanwhile and not claimed since."""
        row = self._held(fence, MAY_SUCCEED)
        self.tables.move(row, State.SUCCEEDED)
        self.promises.written(fence)
        self.promises.finished(fence, stored=stored)

    def fail(self, fence: Fence, code: str) -> None:
        row = self._held(fence)
        self._end_attempt(row, code)
        self.promises.written(fence)

    def _end_attempt(self, row: Row, code: str) -> None:
        alike = like(code)
        attempt = 1 + sum(outcome in alike for outcome in row.outcomes)
        decision = verdict(code, attempt=attempt, max_attempts=MAX_ATTEMPTS)
        row.outcomes.append(code)
        if self._cancel_wins(row):
            self.tables.move(row, State.CANCELLED)
        elif decision.retry_after_s is None:
            self.tables.move(row, State.FAILED)
        else:
            row.not_before = self.tables.now + decision.retry_after_s
            row.start_by = NEVER  # it has started in time once
            self.tables.move(row, State.QUEUED)

    def _cancel_wins(self, row: Row) -> bool:
        """A job whose cancel was asked for does not go back in line."""
        return row.cancel_requested

    def stopped(self, fence: Fence) -> None:
        row = self._held(fence)
        self.tables.move(row, State.CANCELLED)
        self.promises.written(fence)

    def cancel(self, row: Row) -> None:
        """A waiting job ends at once, a running one when its worker has stopped it."""
        self.tables.reach()
        if row.state is State.RUNNING:
            row.cancel_requested = True
        elif row.state in self._ends_at_once():
            self.tables.move(row, State.CANCELLED)

    def _ends_at_once(self) -> frozenset[State]:
        return sources_of(State.CANCELLED) - {State.RUNNING}

    def late(self) -> list[Row]:
        """Running jobs whose lease has passed."""
        self.tables.reach()
        now = self.tables.now
        rows = self.tables.rows.values()
        return [row for row in rows if row.state is State.RUNNING and row.lease_until < now]

    def lose(self, row: Row, *, blameless: bool) -> None:
        self.promises.lost(blameless=blameless)
        self._end_attempt(row, "worker_lost")

    def expire_due(self) -> None:
        self.tables.reach()
        for row in self.tables.rows.values():
            if row.state in MAY_EXPIRE and row.start_by <= self.tables.now:
                self.tables.move(row, State.EXPIRED)
