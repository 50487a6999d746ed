"""Resident or on demand: what a number of calls a day costs one model, told by the hour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scaler.simulate.brain_actor import BrainActor
from scaler.simulate.report import report
from scaler.simulate.trace import Call, Session, Stage
from scaler.simulate.workload import DAY_S, Kind
from scaler.simulate.world import World

CALL_H = 0.25
COLD_H = 0.03
RESIDENT_H = 24.0
CALLS = (20, 100, 200)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """GPU-hours a day for this many calls of a quarter of an hour."""

    calls: int
    on_demand_h: float
    """Each call pays its own cold start."""
    resident: int
    """Workers that would have to stay all day to serve them."""
    spread_h: float
    """The brain's, simulated, with the calls spread evenly over the day."""
    one_hour_h: float
    """The same with all calls within one hour."""


def on_demand_h(calls: int) -> float:
    return calls * (CALL_H + COLD_H)


def crossing() -> int:
    """The first number of calls a day at which on demand costs more than one resident worker."""
    return math.floor(RESIDENT_H / (CALL_H + COLD_H)) + 1


def table(calls: Sequence[int] = CALLS) -> list[Row]:
    """A row for each number of calls a day."""
    return [
        Row(
            calls=each,
            on_demand_h=on_demand_h(each),
            resident=math.ceil(each * CALL_H / RESIDENT_H),
            spread_h=_simulated_h(each, over_s=DAY_S),
            one_hour_h=_simulated_h(each, over_s=3600.0),
        )
        for each in calls
    ]


def _simulated_h(calls: int, *, over_s: float) -> float:
    call = Call(estimate_s=CALL_H * 3600, service_s=CALL_H * 3600)
    stages = (Stage(model="model", calls=(call,)),)
    sessions = [Session(at_s=over_s * number / calls, stages=stages) for number in range(calls)]
    cold_s = COLD_H * 3600
    kind = Kind(
        share=1.0,
        cold_s=(cold_s, cold_s),
        median_s=call.service_s,
        sigma=0.0,
        least_s=call.service_s,
        most_s=call.service_s,
    )
    world = World(
        sessions,
        kinds={"model": kind},
        cards=8,
        actor=BrainActor([kind.policy("model")], every_s=30.0),
        seed=0,
    )
    world.run(DAY_S)
    return report(world).card_hours


def told(rows: Sequence[Row]) -> str:
    """The table as text."""
    lines = [
        "GPU-hours a day of one model (a call 0.25 h, a cold start 0.03 h)",
        "",
        "calls a day   each call cold   one resident   residents needed   the brain, spread"
        "   the brain, in one hour",
    ]
    lines += [
        f"{row.calls:11}   {row.on_demand_h:14.1f}   {RESIDENT_H:12.1f}   {row.resident:16}"
        f"   {row.spread_h:17.1f}   {row.one_hour_h:22.1f}"
        for row in rows
    ]
    lines += [
        "",
        f"Starting for each call costs more than one resident from {crossing()} calls on.",
    ]
    return "\n".join(lines)
