"""What perfect knowledge would have paid for the same work, to measure waste against.

With the most recently used worker always taking the next job, the best plan falls apart by
level: in each gap of the k-th level either wait (the gap) or start again (the break-even).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Least:
    """Seconds of workers: at work, idle because that was cheaper, and starts."""

    busy_s: float = 0.0
    idle_s: float = 0.0
    starts: int = 0

    def cost(self, *, share: float, break_even_s: float) -> float:
        """Card-seconds."""
        return share * (self.busy_s + self.idle_s + self.starts * break_even_s)


def least(runs: Iterable[tuple[float, float]], *, break_even_s: float) -> Least:
    """The cheapest way to have had a worker in each of these (start, end) intervals."""
    steps = sorted(step for start, end in runs for step in ((start, 1), (end, -1)))
    level, last, busy, idle, starts = 0, 0.0, 0.0, 0.0, 0
    fell_idle: dict[int, float] = {}
    for at, step in steps:
        busy += level * (at - last)
        last = at
        if step < 0:
            level -= 1
            fell_idle[level] = at
            continue
        gap = at - fell_idle.pop(level) if level in fell_idle else None
        if gap is None or gap > break_even_s:
            starts += 1
        else:
            idle += gap
        level += 1
    return Least(busy_s=busy, idle_s=idle, starts=starts)
