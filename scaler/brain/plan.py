"""What the brain answers: a decision a model in words, and the orders that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.brain.demand import Habit, Tier


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Order a worker. The card is where the brain expects it; the target may choose its like."""

    model: str
    card: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """End an idle worker, or one that loads for an announced call only."""

    worker: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Drain:
    """Tell a worker to leave when its job ends. Never a kill."""

    worker: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """A card, or a part of one, kept for a model until what drains there has left."""

    card: str
    model: str
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """One model: how many workers it should have, and why, for an admin to read."""

    model: str
    desired: int
    actual: int
    reason: str
    tier: Tier
    zero_in_s: float | None = None
    """Seconds until it has no worker if no job comes; None while it has work or a minimum."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    decisions: tuple[Decision, ...]
    starts: tuple[Start, ...] = ()
    stops: tuple[Stop, ...] = ()
    drains: tuple[Drain, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What the brain keeps between two looks. A new one learns again and harms nobody."""

    habits: Mapping[str, Habit] = field(default_factory=dict)
    promises: tuple[Promise, ...] = ()
    last_down: Mapping[str, float] = field(default_factory=dict)
    desired: Mapping[str, int] = field(default_factory=dict)
    unserved_since: Mapping[str, float] = field(default_factory=dict)
    """Since when a model has jobs and neither a worker nor a card that empties for one."""
    warm: Mapping[str, float] = field(default_factory=dict)
    """Models whose one worker waits for an announced call, and when that was last announced."""
