"""What the brain is shown: cards, workers, and what waits for each model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["loading", "idle", "busy", "draining"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    """One worker, from its order to its last second; a draining one still holds its card."""

    name: str
    model: str
    card: str
    """Empty while nobody knows it (a pod that is pending)."""
    share: float
    state: State
    for_s: float = 0.0
    """Seconds in this state."""
    left_s: float = 0.0
    """Estimated seconds until it is ready (loading) or its job ends (busy, draining)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hint:
    """A call that open jobs of other models announce."""

    running: int = 0
    queued: int = 0
    in_s: float = 0.0
    """Estimated seconds until the first of these jobs ends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """What can be claimed of one model now, in the order it will be."""

    waiting: tuple[float, ...] = ()
    """Estimated seconds of work of each job; the first hundred or so are enough."""
    oldest_s: float = 0.0
    arrived: int = 0
    """Jobs that became claimable since the last look."""
    hint: Hint | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """A source that could not be read. It is never taken for zero."""

    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One look at everything. Models without a demand are taken for unread."""

    cards: tuple[str, ...]
    workers: tuple[Worker, ...] | Unread
    demands: Mapping[str, Demand | Unread]
    cramped: frozenset[str] = frozenset()
    """The models whose ordered worker found no room beside the others, whatever the cards say."""
