"""How fast workers may go: idle ones only, one at a time, after the window of their lane."""

from __future__ import annotations

from scaler.brain.policy import Lane

WINDOW_S: dict[Lane, float] = {"online": 30.0, "long": 60.0, "bulk": 0.0}


def may_go(
    *, lane: Lane, over: int, idle: int, wanted: bool, last_down: float | None, now: float
) -> int:
    """How many of the idle workers above the desired number may be stopped now.

    When somebody waits for the card (`wanted`) all of them, since an idle worker loses no
    work; else one, and not before the window since the last has passed. A clock that was set
    back starts the window afresh and cannot hold it open.
    """
    over = min(over, idle)
    if over <= 0:
        return 0
    if wanted:
        return over
    return 0 if window_left_s(lane=lane, last_down=last_down, now=now) > 0 else 1


def window_left_s(*, lane: Lane, last_down: float | None, now: float) -> float:
    """Seconds until the next idle worker may be stopped; 0 after a clock was set back."""
    since = WINDOW_S[lane] if last_down is None else now - last_down
    return max(0.0, WINDOW_S[lane] - since) if since >= 0 else 0.0
