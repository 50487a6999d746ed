"""Houses with one bug each, of the kind that real queues have had. The simulation is only
worth its seconds while it finds every one of them."""

from __future__ import annotations

from collections.abc import Iterable

from foldline.jobs.states import State
from tests.simulation.actors import Sweeper, Worker
from tests.simulation.house import House
from tests.simulation.protocol import Protocol
from tests.simulation.tables import Call, Fence, Row


class NoFence(House):
    """A worker writes by the job's id alone."""

    class protocol_class(Protocol):
        def _is_mine(self, row: Row, fence: Fence) -> bool:
            return True


class ClaimsAnything(House):
    """The claim does not look at the state."""

    class protocol_class(Protocol):
        def claimable(self) -> Iterable[Row]:
            return (row for row in self.tables.rows.values() if row.start_by > self.tables.now)


class PublishesOnce(House):
    """A job's ticket is sent when it is submitted, and never again."""

    class sweeper_class(Sweeper):
        settles_tickets = False


class QuotaRace(House):
    """The tenant's open jobs are counted before the commit."""

    class protocol_class(Protocol):
        def look(self, call: Call) -> None:
            call.seen = super()._open(call)

        def _open(self, call: Call) -> int:
            assert isinstance(call.seen, int)
            return call.seen


class CancelsTheTerminal(House):
    """A cancel ends a job whatever its state."""

    class protocol_class(Protocol):
        def _ends_at_once(self) -> frozenset[State]:
            return frozenset(State) - {State.RUNNING, State.CANCELLED}


class AcknowledgesEarly(House):
    """The ticket is given back when the job is claimed."""

    class worker_class(Worker):
        acknowledges_late = False


class IdempotencyRace(House):
    """The key is looked up before the commit, and no unique index stands behind it."""

    class protocol_class(Protocol):
        def look(self, call: Call) -> None:
            call.seen = super()._known(call)

        def _known(self, call: Call) -> Row | None:
            assert call.seen is None or isinstance(call.seen, Row)
            return call.seen


class LeasesByTheWorkersClock(House):
    """A worker whose clock is wrong takes a lease that is wrong."""

    class protocol_class(Protocol):
        def _lease_from(self, clock: float) -> float:
            return clock


class JudgesLeasesAtOnce(House):
    """After an outage the sweeper takes jobs from workers that could not beat."""

    class sweeper_class(Sweeper):
        grace_s = 0.0


class RequeuesTheCancelled(House):
    """A job that fails for a retry goes back in line though its cancel was answered."""

    class protocol_class(Protocol):
        def _cancel_wins(self, row: Row) -> bool:
            return False
