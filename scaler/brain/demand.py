"""How a model is called: the idle gaps of each level, the size of a burst, the tier.

A level is the k-th worker that would be needed at once. Its gaps say how dense the calls of a
window are, which the number of calls a day does not: within a pulse they are near zero,
between pulses long, and the second worker's differ from the first's.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Literal

Tier = Literal["hot", "hourly", "daily"]

GAPS_KEPT = 200
BURSTS_KEPT = 20
FIRST_GUESS_BURST = 3.0
DAILY_S = 6 * 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Habit:
    """What was learned about one model. A new value comes of each look."""

    gaps: tuple[float, ...] = ()
    bursts: tuple[int, ...] = ()
    active: int = 0
    unused_since: tuple[float, ...] = ()
    """When each level above `active` fell idle, the highest level first."""

    @property
    def burst(self) -> float:
        """Jobs that arrive together, on average."""
        return statistics.fmean(self.bursts) if self.bursts else FIRST_GUESS_BURST


def look(habit: Habit, *, now: float, active: int, arrived: int) -> Habit:
    """The habit after a look at `active` jobs (waiting and running), `arrived` of them new.

    Jobs that arrived together are one burst. The backlog is none: taking it for one makes
    keep-alive explode under overload.
    """
    if arrived > 0:
        habit = replace(habit, bursts=(*habit.bursts, arrived)[-BURSTS_KEPT:])
    if active == habit.active:
        return habit
    if active < habit.active:
        fallen = (now,) * (habit.active - active)
        return replace(habit, active=active, unused_since=habit.unused_since + fallen)
    woken = min(active - habit.active, len(habit.unused_since))
    kept = len(habit.unused_since) - woken
    gaps = tuple(max(0.0, now - since) for since in reversed(habit.unused_since[kept:]))
    return replace(
        habit,
        active=active,
        gaps=(habit.gaps + gaps)[-GAPS_KEPT:],
        unused_since=habit.unused_since[:kept],
    )


def tier(habit: Habit, *, break_even_s: float) -> Tier:
    """Where its weights belong: on the card, on the node's disk, or nowhere in particular."""
    if not habit.gaps:
        return "daily"
    short = sum(gap <= break_even_s for gap in habit.gaps)
    if short * 2 > len(habit.gaps):
        return "hot"
    return "hourly" if statistics.median(habit.gaps) < DAILY_S else "daily"
