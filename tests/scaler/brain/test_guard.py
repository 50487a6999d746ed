from __future__ import annotations

from scaler.brain.guard import WINDOW_S, may_go
from scaler.brain.policy import Lane


def going(
    *,
    lane: Lane = "online",
    over: int = 3,
    idle: int = 3,
    wanted: bool = False,
    last_down: float | None = None,
) -> int:
    return may_go(lane=lane, over=over, idle=idle, wanted=wanted, last_down=last_down, now=1_000)


def test_one_goes_at_a_time() -> None:
    assert going() == 1


def test_the_next_goes_after_the_window_of_its_lane() -> None:
    assert WINDOW_S["online"] < WINDOW_S["long"]
    assert going(last_down=1_000 - WINDOW_S["online"] + 1) == 0
    assert going(last_down=1_000 - WINDOW_S["online"]) == 1
    assert going(lane="long", last_down=1_000 - WINDOW_S["online"]) == 0
    assert going(lane="long", last_down=1_000 - WINDOW_S["long"]) == 1


def test_all_go_at_once_for_a_card_that_is_wanted() -> None:
    assert going(wanted=True, last_down=999) == 3


def test_only_idle_ones_go() -> None:
    assert going(idle=0) == 0
    assert going(idle=1, over=5, wanted=True) == 1


def test_nobody_goes_who_is_not_over_the_number() -> None:
    assert going(over=0) == going(over=-2) == 0


def test_a_clock_that_was_set_back_does_not_hold_the_window_open() -> None:
    assert going(last_down=999_999) == 1
