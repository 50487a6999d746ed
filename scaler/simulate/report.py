"""What a simulated run comes to: cards, waits, cold starts, and the cost beside the least one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from scaler.brain.clairvoyant import least
from scaler.brain.elastic import break_even_s
from scaler.simulate.workload import Kind
from scaler.simulate.world import Tally, World

BURST = 6.0
"""Jobs that meet a cold model, for the price of a cold start: one number for every policy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    card_hours: float
    busy_hours: float
    mean_wait_s: float
    p95_wait_s: float
    p95_by_model_s: Mapping[str, float]
    cold_starts: int
    killed: int
    unfinished: int
    """Sessions that had not ended when the run was broken off."""
    clairvoyant_ratio: float


def report(world: World) -> Report:
    """The run, judged."""
    waits = {model: _waits(tally) for model, tally in world.tallies.items()}
    every = [wait for each in waits.values() for wait in each]
    return Report(
        card_hours=_hours(world, lambda tally: tally.alive_s),
        busy_hours=_hours(world, lambda tally: sum(end - start for start, end in tally.runs)),
        mean_wait_s=sum(every) / max(1, len(every)),
        p95_wait_s=quantile(every, 0.95),
        p95_by_model_s={model: quantile(each, 0.95) for model, each in waits.items()},
        cold_starts=sum(tally.starts for tally in world.tallies.values()),
        killed=sum(tally.killed for tally in world.tallies.values()),
        unfinished=sum(each.ended_s is None for each in world.sessions),
        clairvoyant_ratio=_ratio(world),
    )


def _waits(tally: Tally) -> list[float]:
    return [job.waited_s for job in tally.jobs if job.ended_s is not None]


def _hours(world: World, seconds_of: Callable[[Tally], float]) -> float:
    return (
        sum(seconds_of(tally) * world.kinds[model].share for model, tally in world.tallies.items())
        / 3600
    )


def _ratio(world: World) -> float:
    """Rent of loaded workers and the price of all starts, over the least for the same work."""
    paid = cheapest = 0.0
    for model, tally in world.tallies.items():
        kind = world.kinds[model]
        even_s = _break_even_s(model, kind)
        paid += kind.share * (tally.alive_s - tally.loading_s + tally.starts * even_s)
        best = least(tally.runs, break_even_s=even_s)
        cheapest += best.cost(share=kind.share, break_even_s=even_s)
    return paid / cheapest if cheapest else 0.0


def _break_even_s(model: str, kind: Kind) -> float:
    return break_even_s(kind.policy(model), burst=BURST)


def quantile(values: Iterable[float], part: float) -> float:
    """Between the two nearest values; 0 when there is none."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    place = (len(ordered) - 1) * part
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
