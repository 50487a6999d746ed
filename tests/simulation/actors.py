"""Who acts on the tables: gateway, broker, workers, sweepers. Each step is one that a kill,
a freeze or an outage may come between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.simulation.promises import Promises
from tests.simulation.protocol import HEARTBEAT_S, LEASE_S, Fenced, Protocol, Refused
from tests.simulation.tables import Call, DatabaseAway, Fence, Row


@dataclass(slots=True, eq=False)
class Broker:
    """One queue. Tickets are all alike, so their number is all there is."""

    ready: int = 0
    unacked: int = 0
    up: bool = True

    def send(self, count: int = 1) -> None:
        if self.up:
            self.ready += count

    def acknowledge(self) -> None:
        if self.up and self.unacked:
            self.unacked -= 1

    def redeliver(self) -> None:
        self.ready, self.unacked = self.ready + self.unacked, 0

    def restart_empty(self) -> None:
        self.ready = self.unacked = 0


class Gateway:
    """Commits calls and answers them; `answer` and `publish` tell how far it gets."""

    def __init__(self, protocol: Protocol, broker: Broker, promises: Promises) -> None:
        self._protocol, self._broker, self._promises = protocol, broker, promises

    def serve(self, call: Call, *, publish: bool, answer: bool) -> bool:
        """False when the caller saw no answer and may call again."""
        try:
            row, new = self._protocol.submit(call)
        except DatabaseAway:
            return False
        except Refused:
            self._promises.met["refused"] += 1
            return True
        if publish and new:
            self._broker.send()
        if answer:
            self._promises.answered(row, payload=call.payload)
        return answer

    def cancel(self, row: Row, *, answer: bool) -> None:
        try:
            self._protocol.cancel(row)
        except DatabaseAway:
            return
        if answer:
            self._promises.cancel_answered(row)


class Worker:
    """Takes a ticket, claims, computes, stores, records, acknowledges: a step at a time."""

    acknowledges_late = True

    def __init__(
        self, name: str, skew: float, protocol: Protocol, broker: Broker, promises: Promises
    ) -> None:
        self.name = name
        self.frozen = False
        self.beat_since_thaw = True
        self.fence: Fence | None = None
        self.ticket = False
        self._skew = skew
        self._stored = False
        self._beats_cancelled = 0
        self._protocol, self._broker, self._promises = protocol, broker, promises

    @property
    def blameless(self) -> bool:
        """Has beaten whenever the database let it."""
        return not self.frozen and self.beat_since_thaw

    def take_ticket(self) -> None:
        self._broker.ready -= 1
        self._broker.unacked += 1
        self.ticket = True

    def step(self) -> None:
        """The next thing a worker with a ticket does."""
        try:
            if self.fence is None:
                self._claim()
            elif not self._stored:
                self._stored = True
            else:
                self._protocol.finish(self.fence, stored=self._stored)
                self._end()
        except DatabaseAway:
            return  # holds what it has, and tries again
        except Fenced:
            self._end()

    def _claim(self) -> None:
        self.fence = self._protocol.claim(self.name, clock=self._clock)
        self._stored = False
        self._beats_cancelled = 0
        if self.fence is None or not self.acknowledges_late:
            self._acknowledge()

    def fail(self, code: str) -> None:
        if self.fence is not None:
            self._record(lambda fence: self._protocol.fail(fence, code))

    def _record(self, write: Callable[[Fence], None]) -> None:
        assert self.fence is not None
        try:
            write(self.fence)
        except DatabaseAway:
            return
        except Fenced:
            pass
        self._end()

    def _end(self) -> None:
        self.fence = None
        if self.ticket:
            self._acknowledge()

    def _acknowledge(self) -> None:
        self.ticket = False
        self._promises.acknowledged(recorded=self.fence is None)
        self._broker.acknowledge()

    def beat(self) -> None:
        """Prolong the lease; a cancel it hears of ends the plugin before the next beat."""
        if self.fence is None:
            self.beat_since_thaw = True
            return
        try:
            cancelled = self._protocol.heartbeat(self.fence, clock=self._clock)
        except DatabaseAway:
            return
        except Fenced:
            self._end()
            self.beat_since_thaw = True
            return
        self.beat_since_thaw = True
        if cancelled:
            self._beats_cancelled += 1
            self._promises.heard_of_cancel(beats_since=self._beats_cancelled)
            self._record(self._protocol.stopped)

    def freeze(self) -> None:
        self.frozen, self.beat_since_thaw = True, False

    @property
    def _clock(self) -> float:
        return self._protocol.tables.now + self._skew


class Sweeper:
    """The net: lost leases, expiry, missing tickets. Judges leases only after an unbroken
    contact with the database that gave every worker the time to beat."""

    settles_tickets = True
    grace_s = LEASE_S + 2 * HEARTBEAT_S

    def __init__(self, protocol: Protocol, broker: Broker) -> None:
        self._protocol, self._broker = protocol, broker
        self._contact_since: float | None = None

    def sweep(self, workers: Mapping[str, Worker]) -> None:
        try:
            self._sweep(workers)
        except DatabaseAway:
            self._contact_since = None

    def _sweep(self, workers: Mapping[str, Worker]) -> None:
        late = self._protocol.late()
        if self._may_judge_leases():
            for row in late:
                worker = workers.get(row.owner)
                self._protocol.lose(row, blameless=worker is not None and worker.blameless)
        self._protocol.expire_due()
        if self.settles_tickets and self._broker.up:
            self._settle(present=len(workers))

    def _may_judge_leases(self) -> bool:
        now = self._protocol.tables.now
        if self._contact_since is None:
            self._contact_since = now
        return now - self._contact_since >= self.grace_s

    def _settle(self, *, present: int) -> None:
        waiting = sum(1 for _ in self._protocol.claimable())
        ready = self._broker.ready
        self._broker.ready = min(max(ready, waiting), waiting + present)
