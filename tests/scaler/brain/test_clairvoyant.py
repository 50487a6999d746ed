from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.brain.clairvoyant import least

runs = st.lists(
    st.tuples(st.floats(0, 10_000), st.floats(1, 500)).map(lambda run: (run[0], run[0] + run[1])),
    max_size=20,
)


def test_a_short_gap_is_waited_out_and_a_long_one_is_not() -> None:
    best = least([(0, 10), (15, 20), (500, 510)], break_even_s=100)
    assert (best.busy_s, best.idle_s, best.starts) == (25, 5, 2)
    assert best.cost(share=0.5, break_even_s=100) == 0.5 * (25 + 5 + 200)


def test_each_level_has_gaps_of_its_own() -> None:
    """The second worker idles from 10 to 90 although the first never does."""
    best = least([(0, 100), (0, 10), (90, 100)], break_even_s=50)
    assert (best.busy_s, best.idle_s, best.starts) == (120, 0, 3)


@settings(max_examples=100, deadline=None)
@given(runs, st.floats(1, 1_000), st.floats(0, 5_000))
def test_no_fixed_time_to_stay_is_cheaper(
    intervals: list[tuple[float, float]], even_s: float, stay_s: float
) -> None:
    """Every worker staying `stay_s` after each job, then starting anew for the next."""
    paid = least([], break_even_s=even_s).cost(share=1, break_even_s=even_s)
    assert paid == 0
    steps = sorted(step for start, end in intervals for step in ((start, 1), (end, -1)))
    level, paid, fell = 0, 0.0, dict[int, float]()
    for at, step in steps:
        if step < 0:
            level -= 1
            fell[level] = at
            continue
        gap = at - fell.pop(level) if level in fell else None
        stays = gap is not None and gap <= stay_s
        paid += gap if stays and gap is not None else even_s + (stay_s if gap is not None else 0)
        level += 1
    paid += sum(end - start for start, end in intervals)
    best = least(intervals, break_even_s=even_s).cost(share=1, break_even_s=even_s)
    assert best <= paid + 1e-6
    assert best == pytest.approx(paid) or best < paid
