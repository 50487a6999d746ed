"""What an admin sets and a worker measures about one model: the brain's constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Lane = Literal["online", "long", "bulk"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """Workers a model has a right to while jobs wait, whatever others would pay.

    The right begins when the oldest job has waited `after_s` and grows by one worker each
    `step_s` (0: all at once). Without waiting jobs there is no right.
    """

    workers: int = 1
    after_s: float = 0.0
    step_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """One model. `share` is the part of a card a worker holds, `cold_s` its measured start.

    `omega` is how many card-seconds one second of one job's waiting is worth; `trust` (0 to
    1) bounds how far the learned keep-alive may leave the break-even time: its cost is never
    above 1 + 1/trust times the least possible.
    """

    model: str
    share: float
    cold_s: float
    lane: Lane = "online"
    omega: float = 0.2
    trust: float = 0.25
    patience_s: float = 300.0
    """A waiting job's value doubles when it has waited this long, and so on."""
    min_workers: int = 0
    max_workers: int = 64
    floor: Floor = Floor()
