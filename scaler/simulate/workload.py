"""Made-up days: five models with invented service times, and agents that design and predict.

Four fifths of the sessions come between nine and nineteen o'clock. A session designs and
predicts once to three times over, or predicts at once; its calls come 1 to 30 at a time.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from scaler.brain.policy import Floor, Lane, Policy
from scaler.simulate.trace import Call, Session, Stage

DAY_S = 86_400.0
RESIDUAL = 0.30
"""Spread (of the logarithm) that remains when the size of the input is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One model of the made-up day: its share, its cold start and its service times."""

    share: float
    cold_s: tuple[float, float]
    median_s: float
    sigma: float
    least_s: float
    most_s: float
    lane: Lane = "online"

    def policy(self, name: str, *, omega: float = 0.2, floor: Floor | None = None) -> Policy:
        return Policy(
            model=name,
            share=self.share,
            cold_s=sum(self.cold_s) / 2,
            lane=self.lane,
            omega=omega,
            floor=floor or Floor(),
        )


KINDS = {
    "rfdiffusion": Kind(
        share=1.0, cold_s=(60, 120), median_s=900, sigma=0.35, least_s=600, most_s=1800, lane="long"
    ),
    "openfold3": Kind(share=1.0, cold_s=(60, 120), median_s=240, sigma=0.5, least_s=60, most_s=900),
    "boltz2": Kind(share=0.5, cold_s=(30, 90), median_s=90, sigma=0.6, least_s=15, most_s=600),
    "protenix": Kind(share=0.5, cold_s=(30, 90), median_s=180, sigma=0.5, least_s=40, most_s=900),
    "embedding": Kind(share=0.125, cold_s=(15, 25), median_s=5, sigma=0.4, least_s=1, most_s=20),
}
FOLDERS = ["boltz2", "protenix"]


def policies() -> list[Policy]:
    """What an admin of eight cards would set: the long lane's floor, the rest as delivered."""
    return [
        KINDS["rfdiffusion"].policy(
            "rfdiffusion", omega=0.6, floor=Floor(workers=5, after_s=300, step_s=300)
        ),
        KINDS["openfold3"].policy("openfold3", floor=Floor(after_s=300)),
        *(KINDS[name].policy(name) for name in ("boltz2", "protenix", "embedding")),
    ]


def agents(seed: int, *, sessions_a_day: float, days: int = 1) -> list[Session]:
    """The sessions of some days; the same seed is the same days."""
    rng = random.Random(1000 + seed)  # noqa: S311 - a simulation
    busiest = _rate(12 * 3600, sessions_a_day)
    made, at_s = [], 0.0
    while at_s < days * DAY_S:
        at_s += rng.expovariate(busiest)
        if rng.random() > _rate(at_s, sessions_a_day) / busiest or at_s >= days * DAY_S:
            continue
        stages = tuple(_stage(rng, model, count) for model, count in _outline(rng))
        made.append(Session(at_s=at_s, stages=stages))
    return made


def _rate(at_s: float, sessions_a_day: float) -> float:
    by_day = 9 <= (at_s / 3600) % 24 < 19
    return sessions_a_day * (0.8 / 36_000 if by_day else 0.2 / 50_400)


def _outline(rng: random.Random) -> list[tuple[str, int]]:
    """Which models a session calls, and how often at a time."""
    kind = rng.random()
    if kind < 0.6:
        rounds = 1 + (rng.random() < 0.4) + (rng.random() < 0.15)
        return [step for _ in range(rounds) for step in _design_round(rng)]
    if kind < 0.8:
        return [("openfold3", rng.choice([1, 3, 5, 10])), ("embedding", rng.choice([3, 10]))]
    folder = rng.choice(FOLDERS)
    return [(folder, rng.choice([3, 10, 30])), ("embedding", rng.choice([10, 30]))]


def _design_round(rng: random.Random) -> list[tuple[str, int]]:
    designs = rng.choice([1, 1, 2, 3])
    folder = rng.choice(FOLDERS)
    return [
        ("rfdiffusion", designs),
        (folder, rng.choice([3, 5, 8, 10, 15, 20, 30])),
        ("embedding", rng.choice([3, 10, 30])),
    ]


def _stage(rng: random.Random, model: str, count: int) -> Stage:
    kind = KINDS[model]
    expected = kind.median_s * math.exp(rng.gauss(0, 1) * kind.sigma)
    calls = [
        Call(
            estimate_s=_within(kind, expected),
            service_s=_within(kind, expected * math.exp(rng.gauss(0, 1) * RESIDUAL)),
        )
        for _ in range(count)
    ]
    return Stage(model=model, calls=tuple(calls))


def _within(kind: Kind, seconds: float) -> float:
    return min(max(seconds, kind.least_s), kind.most_s)
