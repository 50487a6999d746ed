"""How many workers a model is worth, seen alone: its bids, in card-seconds saved per card.

One currency: a worker costs its share a second, a cold start its share for as long as it
takes, and each second of each waiting job `omega`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scaler.brain.demand import Habit
from scaler.brain.policy import Policy
from scaler.brain.views import Demand

ENOUGH_GAPS = 8
ABOUT_TO_WORK = 3600.0
"""The value of an idle worker while a job waits for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Crew:
    """The workers of one model that stay: seconds left, seconds until ready, seconds idle."""

    busy: tuple[float, ...] = ()
    loading: tuple[float, ...] = ()
    idle: tuple[float, ...] = ()
    """Ascending: the most recently used one takes the next job, so the last ones age."""

    @property
    def held(self) -> int:
        """Workers that nobody may take: they work, or are about to."""
        return len(self.busy) + len(self.loading)

    @property
    def size(self) -> int:
        return self.held + len(self.idle)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bid:
    """What the next workers above `held` are worth per card; the idle ones come first.

    Held are those nobody may take: they work, load, or are the admin's minimum.
    """

    model: str
    share: float
    held: int
    values: tuple[float, ...]


def cold_price(policy: Policy, *, burst: float) -> float:
    """Card-seconds one cold start costs: the load, and the jobs that wait for it."""
    return policy.cold_s * (policy.share + policy.omega * max(1.0, burst))


def break_even_s(policy: Policy, *, burst: float) -> float:
    """Idle seconds that cost as much as a cold start."""
    return cold_price(policy, burst=burst) / policy.share


def keepalive_s(policy: Policy, *, gaps: Sequence[float], burst: float) -> float:
    """How long an idle worker stays: what would have cost least over the known gaps.

    Kept within [trust, 1/trust] times the break-even time, so that no sequence of gaps makes
    it dearer than 1 + 1/trust times what perfect knowledge would have paid.
    """
    even = break_even_s(policy, burst=burst)
    if len(gaps) < ENOUGH_GAPS:
        return even
    ordered = sorted(gaps)
    best, cheapest, waited = 0.0, len(ordered) * even, 0.0
    for rank, gap in enumerate(ordered, start=1):
        waited += gap
        cost = waited + (len(ordered) - rank) * (gap + even)
        if cost < cheapest - 1e-9:
            best, cheapest = gap, cost
    # A little longer than the gap that decided, or the very same gap would miss it.
    return min(max(best * 1.05, policy.trust * even), even / policy.trust)


def total_wait(work: Iterable[float], *, ready: Iterable[float]) -> float:
    """Seconds all jobs wait together when workers become ready then and take them in order."""
    free_at = list(ready)
    if not free_at:
        return math.inf
    heapq.heapify(free_at)
    waited = 0.0
    for seconds in work:
        start = free_at[0]
        waited += start
        heapq.heapreplace(free_at, start + seconds)
    return waited


def kept(policy: Policy, *, crew: Crew) -> int:
    """Idle workers that stay because of the admin's minimum."""
    return min(len(crew.idle), max(0, policy.min_workers - crew.held))


def bid(policy: Policy, *, crew: Crew, demand: Demand, habit: Habit, room: int) -> Bid:
    """The values of up to `room` workers beyond the held ones. Knows no other model."""
    stay = kept(policy, crew=crew)
    held = crew.held + stay
    allowed = max(0, policy.max_workers - held)
    values = _idle_values(policy, idle=crew.idle[stay:], demand=demand, habit=habit)[:allowed]
    for value in _new_values(policy, crew=crew, demand=demand, habit=habit):
        if len(values) >= min(room, allowed) or value <= 0:
            break
        values.append(value)
    return Bid(model=policy.model, share=policy.share, held=held, values=tuple(values))


def urgency(policy: Policy, *, oldest_s: float) -> float:
    """What long waiting multiplies a model's values by."""
    return 1 + max(0.0, oldest_s) / policy.patience_s


def _idle_values(
    policy: Policy, *, idle: Sequence[float], demand: Demand, habit: Habit
) -> list[float]:
    """What keeping each idle worker is worth: it falls to nothing over the keep-alive."""
    if demand.waiting:
        return [ABOUT_TO_WORK] * len(idle)
    even = break_even_s(policy, burst=habit.burst)
    stay = keepalive_s(policy, gaps=habit.gaps, burst=habit.burst)
    return [
        (1 - max(0.0, idle_s) / stay) * even * 0.5 + 1e-3 if idle_s < stay else 0.0
        for idle_s in idle
    ]


def _new_values(policy: Policy, *, crew: Crew, demand: Demand, habit: Habit) -> Iterator[float]:
    """What each further worker is worth: the waiting it saves, less its cold start."""
    ready = [*crew.busy, *crew.loading, *(0.0 for _ in crew.idle)]
    before = total_wait(demand.waiting, ready=ready) if demand.waiting else 0.0
    factor = urgency(policy, oldest_s=demand.oldest_s)
    size = crew.size
    while True:
        size += 1
        ready.append(policy.cold_s)
        value = 0.0
        if demand.waiting:
            after = total_wait(demand.waiting, ready=ready)
            # With nobody there it is infinite: a horizon less the wait would turn negative for a
            # long queue, and that would starve for ever.
            gain = policy.omega * (before - after) - policy.cold_s * policy.share
            value = gain / policy.share * factor
            before = after
        if size <= policy.min_workers:
            value = max(value, break_even_s(policy, burst=habit.burst) * 2)
        yield value
