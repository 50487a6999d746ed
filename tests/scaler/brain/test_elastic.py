from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.brain.demand import Habit
from scaler.brain.elastic import Bid, Crew, bid, break_even_s, keepalive_s, total_wait
from scaler.brain.policy import Policy
from scaler.brain.views import Demand
from tests.scaler.brain import pools

HALF = Policy(model="half", share=0.5, cold_s=60)
gap_lists = st.lists(st.floats(0, 1e5), min_size=1, max_size=60)


def bids(policy: Policy, *, room: int = 16, habit: Habit | None = None, **seen: object) -> Bid:
    crew = Crew(
        **{name: value for name, value in seen.items() if name in ("busy", "loading", "idle")}  # type: ignore[arg-type]
    )
    demand = Demand(
        **{name: value for name, value in seen.items() if name in ("waiting", "oldest_s")}  # type: ignore[arg-type]
    )
    return bid(policy, crew=crew, demand=demand, habit=habit or Habit(), room=room)


@settings(max_examples=150, deadline=None)
@given(pools.policies(), gap_lists, st.floats(1, 30))
def test_keeping_alive_never_costs_more_than_the_bound(
    policy: Policy, gaps: list[float], burst: float
) -> None:
    even = break_even_s(policy, burst=burst)
    stay = keepalive_s(policy, gaps=gaps, burst=burst)
    paid = sum(gap if gap <= stay else stay + even for gap in gaps)
    least = sum(min(gap, even) for gap in gaps)
    assert paid <= (1 + 1 / policy.trust) * least + 1e-6


@settings(max_examples=100, deadline=None)
@given(
    st.lists(pools.seconds, min_size=1, max_size=20),
    st.lists(pools.seconds, max_size=4),
    st.floats(1, 120),
)
def test_more_workers_never_add_waiting(
    work: list[float], busy: list[float], cold_s: float
) -> None:
    waits = [total_wait(work, ready=[*busy, *[cold_s] * more]) for more in range(8)]
    assert all(fewer >= more - 1e-6 for fewer, more in pairwise(waits))


@settings(max_examples=100, deadline=None)
@given(pools.policies(), st.integers(1, 300), st.floats(0, 1e6))
def test_a_queue_nobody_serves_always_bids(policy: Policy, jobs: int, oldest_s: float) -> None:
    """Also a long one: with nobody there its value does not fall with its length."""
    offer = bids(policy, room=1, waiting=(60.0,) * jobs, oldest_s=oldest_s)
    assert offer.values
    assert offer.values[0] > 0


def test_the_time_to_stay_is_learned_from_the_gaps() -> None:
    even = break_even_s(HALF, burst=3)
    assert even == pytest.approx(60 * (1 + 0.2 * 3 / 0.5))
    assert keepalive_s(HALF, gaps=[10] * 7, burst=3) == even
    assert keepalive_s(HALF, gaps=[100] * 20, burst=3) == pytest.approx(105)
    assert keepalive_s(HALF, gaps=[9_999] * 20, burst=3) == pytest.approx(0.25 * even)
    mostly_short = [200] * 18 + [40_000] * 2
    patient = replace(HALF, omega=1.0)
    assert keepalive_s(patient, gaps=mostly_short, burst=3) == pytest.approx(210)


def test_an_idle_worker_is_worth_less_the_longer_it_idles() -> None:
    values = bids(HALF, idle=(0.0, 60.0, 131.0, 133.0)).values
    assert list(values) == sorted(values, reverse=True)
    assert values[2] > 0 == values[3]


def test_each_further_worker_is_worth_less() -> None:
    values = bids(HALF, busy=(900.0,), waiting=(300.0,) * 10).values
    assert len(values) > 3
    assert list(values) == sorted(values, reverse=True)


def test_nobody_is_wanted_who_saves_less_waiting_than_the_cold_start_costs() -> None:
    """40 s of one job's waiting are worth 8 card-seconds, the start of half a card 30."""
    assert bids(HALF, busy=(100.0,), waiting=(30.0,)).values == ()


def test_nobody_is_wanted_whose_cold_start_outlasts_the_wait() -> None:
    assert bids(HALF, busy=(20.0,), waiting=(30.0,)).values == ()
    assert bids(HALF, busy=(2_000.0,), waiting=(30.0,)).values != ()


def test_a_worker_that_loads_counts_for_the_waiting_jobs() -> None:
    alone = bids(HALF, waiting=(60.0,) * 3, busy=(900.0,)).values
    beside = bids(HALF, waiting=(60.0,) * 3, busy=(900.0,), loading=(5.0,) * 3).values
    assert alone
    assert beside == ()


def test_waiting_long_makes_a_model_pay_more() -> None:
    now = bids(HALF, busy=(900.0,), waiting=(300.0,) * 3).values
    later = bids(HALF, busy=(900.0,), waiting=(300.0,) * 3, oldest_s=300).values
    assert later[0] == pytest.approx(2 * now[0])


def test_no_workers_have_ready_times() -> None:
    assert total_wait([1.0], ready=[]) == math.inf


def test_jobs_are_taken_in_order_by_whoever_is_free_first() -> None:
    assert total_wait([10, 10, 10], ready=[0, 5]) == 0 + 5 + 10
