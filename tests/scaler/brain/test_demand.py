from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.brain.demand import BURSTS_KEPT, FIRST_GUESS_BURST, GAPS_KEPT, Habit, look, tier

HOUR_S = 3600.0


def habit_of(looks: list[tuple[float, int]]) -> Habit:
    habit = Habit()
    for now, active in looks:
        habit = look(habit, now=now, active=active, arrived=0)
    return habit


def test_the_gaps_of_each_level_are_its_own() -> None:
    """One job at 0 to 10 and 20 to 30; a second beside each, from 2 to 4 and from 26 on."""
    habit = habit_of([(0, 1), (2, 2), (4, 1), (10, 0), (20, 1), (26, 2), (30, 1)])
    assert habit.gaps == (20 - 10, 26 - 4)


def test_levels_that_wake_together_each_end_their_gap() -> None:
    habit = habit_of([(0, 3), (10, 0), (25, 2)])
    assert habit.gaps == (15, 15)
    assert habit.unused_since == (10,)


def test_a_burst_is_what_arrives_together_not_what_waits() -> None:
    assert Habit().burst == FIRST_GUESS_BURST
    habit = look(Habit(), now=0, active=4, arrived=4)
    habit = look(habit, now=5, active=100, arrived=6)
    habit = look(habit, now=9, active=100, arrived=0)
    assert habit.burst == 5


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 9)), max_size=60))
def test_no_gap_is_negative_whatever_the_clock_does(looks: list[tuple[float, int]]) -> None:
    habit = habit_of(looks)
    assert all(gap >= 0 for gap in habit.gaps)
    assert len(habit.unused_since) <= 9


def test_only_the_last_gaps_and_bursts_are_kept() -> None:
    habit = Habit()
    for now in range(3 * GAPS_KEPT):
        habit = look(habit, now=now, active=now % 2, arrived=now)
    assert len(habit.gaps) == GAPS_KEPT
    assert habit.bursts == tuple(range(3 * GAPS_KEPT - BURSTS_KEPT, 3 * GAPS_KEPT))


def daily(starts: list[float], *, days: int) -> Habit:
    looks = [
        step
        for day in range(days)
        for start in starts
        for step in ((day * 24 * HOUR_S + start, 1), (day * 24 * HOUR_S + start + 60, 0))
    ]
    return habit_of(looks)


def test_twenty_calls_in_one_hour_are_another_tier_than_twenty_over_the_day() -> None:
    """The same number a day: what counts is how dense the calls of a window are."""
    within_an_hour = daily([9 * HOUR_S + 180 * number for number in range(20)], days=7)
    over_the_day = daily([4320.0 * number for number in range(20)], days=7)
    once = daily([9 * HOUR_S, 17 * HOUR_S], days=7)
    assert tier(within_an_hour, break_even_s=300) == "hot"
    assert tier(over_the_day, break_even_s=300) == "hourly"
    assert tier(once, break_even_s=300) == "daily"
    assert tier(Habit(), break_even_s=300) == "daily"
