"""Is the brain better than what people run today? Simulated days of eight cards.

The days of seeds 1 to 3, 11 to 13 and 21 to 26 were looked at while the brain was made; those
measured here, from 31 on, never were. Each day is also run by fixed workers, by KEDA and HPA as
delivered, and by KEDA tuned by hand for this very workload; ratios are against the last.
Service times are made up, and no card is touched. `python -m benchmarks.policy`
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.figures import figure, publish
from scaler.brain.placement import Room, fit, fragmentation
from scaler.simulate import workload
from scaler.simulate.baselines import keda_defaults, keda_tuned, static
from scaler.simulate.brain_actor import BrainActor
from scaler.simulate.report import Report, report
from scaler.simulate.world import Actor, World

CARDS = 8
SESSIONS_A_DAY = (40, 80, 110)
"""The last is the overloaded day."""
HELD_OUT = tuple(range(31, 43))
LONG = "rfdiffusion"
BY: dict[str, Callable[[], Actor]] = {
    "brain": lambda: BrainActor(workload.policies()),
    "keda_tuned": keda_tuned,
    "keda_defaults": keda_defaults,
    "static": static,
}


def main() -> None:
    publish("policy", measure())


def measure(
    *,
    seeds: Sequence[int] = HELD_OUT,
    loads: Sequence[int] = SESSIONS_A_DAY,
    churns: int = 200,
) -> list[dict[str, Any]]:
    """Every figure; each day of a load is one seed."""
    days = [Day.run(load, seed) for load in loads for seed in seeds]
    brains = [day.by["brain"] for day in days]
    return [
        figure(
            "killed_jobs",
            sum(run.killed for run in brains),
            unit="jobs",
            exactly=0,
            runs=len(days),
            sessions_not_ended=sum(run.unfinished for run in brains),
        ),
        figure(
            "clairvoyant_ratio",
            max(run.clairvoyant_ratio for run in brains),
            unit="ratio",
            at_most=1.3,
            of="the worst run",
            mean=round(fmean(run.clairvoyant_ratio for run in brains), 3),
        ),
        *[each for load in loads for each in _against_tuned(load, days)],
        _refused(churns),
        *[_means(load, days) for load in loads],
    ]


@dataclass(frozen=True, kw_only=True)
class Day:
    """One day, run by each."""

    load: int
    seed: int
    by: dict[str, Report]

    @classmethod
    def run(cls, load: int, seed: int) -> Day:
        sessions = workload.agents(seed, sessions_a_day=load)
        by = {}
        for name, actor in BY.items():
            world = World(sessions, kinds=workload.KINDS, cards=CARDS, actor=actor(), seed=seed)
            world.run(workload.DAY_S)
            by[name] = report(world)
        return cls(load=load, seed=seed, by=by)


def _long(run: Report) -> float:
    return run.p95_by_model_s[LONG]


JUDGED: dict[str, Callable[[Report], float]] = {
    "card_hours_ratio": lambda run: run.card_hours,
    "p95_wait_ratio": lambda run: run.p95_wait_s,
    "long_p95_ratio": _long,
}


def _against_tuned(load: int, days: Sequence[Day]) -> list[dict[str, Any]]:
    """The brain's mean over the days of a load by tuned KEDA's, and the worst single day."""
    figures = []
    for name, value_of in JUDGED.items():
        pairs = [
            (day.seed, value_of(day.by["brain"]), value_of(day.by["keda_tuned"]))
            for day in days
            if day.load == load
        ]
        ours, theirs = fmean(pair[1] for pair in pairs), fmean(pair[2] for pair in pairs)
        worst = max(pairs, key=lambda pair: pair[1] / pair[2])
        figures.append(
            figure(
                name,
                ours / theirs,
                unit="ratio",
                at_most=1.0,
                sessions_a_day=load,
                brain=round(ours, 1),
                keda_tuned=round(theirs, 1),
                worst_day={
                    "seed": worst[0],
                    "ratio": round(worst[1] / worst[2], 3),
                    "brain": round(worst[1], 1),
                    "keda_tuned": round(worst[2], 1),
                },
                days_above_one=sum(pair[1] > pair[2] for pair in pairs),
                days=len(pairs),
            )
        )
    return figures


def _means(load: int, days: Sequence[Day]) -> dict[str, Any]:
    """What each comes to on average, and every single day of the brain and of tuned KEDA."""
    chosen = [day for day in days if day.load == load]
    by = {
        name: {
            "card_hours": round(fmean(day.by[name].card_hours for day in chosen), 1),
            "mean_wait_s": round(fmean(day.by[name].mean_wait_s for day in chosen)),
            "p95_wait_s": round(fmean(day.by[name].p95_wait_s for day in chosen)),
            "p95_by_model_s": {
                model: round(fmean(day.by[name].p95_by_model_s[model] for day in chosen))
                for model in workload.KINDS
            },
            "cold_starts": round(fmean(day.by[name].cold_starts for day in chosen)),
            "killed": sum(day.by[name].killed for day in chosen),
            "clairvoyant_ratio": round(fmean(day.by[name].clairvoyant_ratio for day in chosen), 3),
        }
        for name in BY
    }
    columns = ("seed", "card_hours", "p95_wait_s", "long_p95_s", "clairvoyant_ratio")
    rows = {
        name: [
            [
                day.seed,
                round(day.by[name].card_hours, 1),
                round(day.by[name].p95_wait_s),
                round(_long(day.by[name])),
                round(day.by[name].clairvoyant_ratio, 3),
            ]
            for day in chosen
        ]
        for name in ("brain", "keda_tuned")
    }
    mean = fmean(day.by["brain"].mean_wait_s for day in chosen)
    return figure(
        "mean_wait_s", mean, unit="s", sessions_a_day=load, means=by, columns=columns, days=rows
    )


def _refused(churns: int) -> dict[str, Any]:
    """Requests that find no card although a quarter of the capacity is free, of a hundred."""
    refused, fragments = _churned(churns, fit)
    spread_refused, spread_fragments = _churned(churns, _spread)
    return figure(
        "fill_first_refused_pct",
        refused,
        unit="%",
        at_most=0.1,
        spreading_refused_pct=round(spread_refused, 2),
        fragmentation=round(fragments, 3),
        spreading_fragmentation=round(spread_fragments, 3),
        churns=churns,
    )


SHARES = (0.5, 0.5, 0.25, 1.0)
WEIGHTS = (3, 3, 3, 2)
MOST_IN_USE = 0.75 * CARDS


def _churned(churns: int, place: Callable[..., str | None]) -> tuple[float, float]:
    """Of a hundred requests the refused ones; the mean part of what is free that no whole-card
    worker can use."""
    asked = refused = 0
    fragments = 0.0
    for seed in range(churns):
        rng = random.Random(seed)
        free = {f"card-{number}": 1.0 for number in range(CARDS)}
        live: list[tuple[str, float]] = []
        for _ in range(300):
            if rng.random() < 0.5 and live:
                card, share = live.pop(rng.randrange(len(live)))
                free[card] += share
            (share,) = rng.choices(SHARES, WEIGHTS)
            if CARDS - sum(free.values()) + share > MOST_IN_USE:
                continue
            asked += 1
            rooms = [Room(card=card, free=left) for card, left in free.items()]
            fragments += fragmentation(rooms, share=1.0)
            found = place(rooms, share=share)
            if found is None:
                refused += 1
            else:
                free[found] -= share
                live.append((found, share))
    return 100 * refused / asked, fragments / asked


def _spread(rooms: Sequence[Room], *, share: float) -> str | None:
    """As a scheduler does that spreads: the emptiest card first."""
    able = [room for room in rooms if room.free >= share]
    return max(able, key=lambda room: room.free).card if able else None


if __name__ == "__main__":
    main()
