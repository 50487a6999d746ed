"""Generated traces of one model's calls, fitted to the statistics of a public one.

Fitted to: Alibaba cluster-trace-v2026-GenAI (26,823 calls in 23 days) as measured before anything
here was tuned. Calls come in bursts, bursts in sessions, and between sessions nothing happens:
the times between calls have a coefficient of variation of 12, and 70 % of the minutes are idle.
A call computes 23 s at p50, 53 s at p90, 106 s at p99 and 567 s at most, of which the size of its
input explains all but a spread of sigma(log) 0.32. The rate is 2.5 times the trace's, for a pool
of four workers, as in the second row of the queue table measured on it.

Tenants, classes, how a size becomes a time and cold starts are not in the trace: invented.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

DAY_S = 86_400.0
WORKERS = 4
COLD_S = (30.0, 90.0)
"""A cold start, uniform between these."""

RESIDUAL = 0.32
MEDIAN_SIZE, MEDIAN_S, POWER, LONGEST_S = 250, 23.0, 1.2, 567.0
BETWEEN_BURSTS, WITHIN_BURST = 0.40, 0.27
"""Spread of log sizes: the calls of a burst resemble each other."""

SESSION_S, QUIET_S, QUIET_SPREAD = 1500.0, 2100.0, 1.3
BURST_EVERY_S, CALL_EVERY_S = 45.0, 0.5
BURSTS = ((0.55, 1, 1), (0.33, 2, 4), (0.105, 5, 12), (0.015, 40, 160))
"""(share, smallest, largest) of the calls in a burst; the largest are batch three times in four."""

TENANTS = {"A": 0.9, "B": 0.9, "C": 0.4, "D": 0.1, "E": 0.1}
"""How often a tenant's small bursts are interactive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call: when it comes, whose it is, and what it will take (which nobody knows before)."""

    at_s: float
    tenant: str
    priority: str
    size: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Calls in the order they come, and when a busy worker is lost together with its place."""

    calls: tuple[Call, ...]
    losses_s: tuple[float, ...] = ()
    place_back_s: float = 7200.0


def steady(seed: int, *, days: float) -> Trace:
    return Trace(calls=tuple(_calls(seed, days, lambda at_s: 1.0)))


def drifting(seed: int, *, days: float) -> Trace:
    """Service times change over the day: twice as long at noon as at midnight."""
    return Trace(calls=tuple(_calls(seed, days, lambda at_s: math.exp2(_noon(at_s)))))


def losing(seed: int, *, days: float) -> Trace:
    """Every six hours a busy worker is lost, and its place stays empty for two hours."""
    losses = tuple(hours * 3600.0 for hours in range(3, int(24 * days), 6))
    return Trace(calls=steady(seed, days=days).calls, losses_s=losses)


def expected_s(size: int) -> float:
    """The median time of a call of this size."""
    return MEDIAN_S * math.pow(size / MEDIAN_SIZE, POWER)


def _noon(at_s: float) -> float:
    """0 at midnight, 1 at noon."""
    return (1 - math.cos(2 * math.pi * at_s / DAY_S)) / 2


def _calls(seed: int, days: float, slower: Callable[[float], float]) -> Iterator[Call]:
    rng = random.Random(seed)
    bursts = session_bursts(rng, days * DAY_S)
    calls = [call for at_s in bursts for call in burst_calls(rng, at_s, slower)]
    yield from sorted(calls, key=lambda call: call.at_s)


def session_bursts(rng: random.Random, until_s: float) -> Iterator[float]:
    """When bursts begin: close together in sessions, with heavy-tailed quiet between them."""
    at_s = 0.0
    while at_s < until_s:
        ends_s = at_s + rng.expovariate(1 / SESSION_S)
        while at_s < min(ends_s, until_s):
            yield at_s
            at_s += rng.expovariate(1 / BURST_EVERY_S)
        log_mean = math.log(QUIET_S) - QUIET_SPREAD**2 / 2
        at_s = ends_s + rng.lognormvariate(log_mean, QUIET_SPREAD)


def burst_calls(
    rng: random.Random, at_s: float, slower: Callable[[float], float]
) -> Iterator[Call]:
    tenant = rng.choice(list(TENANTS))
    _, least, most = rng.choices(BURSTS, weights=[share for share, _, _ in BURSTS])[0]
    count = round(math.exp(rng.uniform(math.log(least), math.log(most))))
    interactive = rng.random() < (TENANTS[tenant] if count < 40 else 0.25)
    middle = rng.gauss(math.log(MEDIAN_SIZE), BETWEEN_BURSTS)
    for _ in range(count):
        size = max(round(math.exp(rng.gauss(middle, WITHIN_BURST))), 20)
        seconds = expected_s(size) * math.exp(rng.gauss(0, RESIDUAL)) * slower(at_s)
        yield Call(
            at_s=at_s,
            tenant=tenant,
            priority="interactive" if interactive else "batch",
            size=size,
            seconds=min(seconds, LONGEST_S),
        )
        at_s += rng.expovariate(1 / CALL_EVERY_S)
