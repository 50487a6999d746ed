from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.scheduling.arrivals import Arrivals, Burst
from foldline.scheduling.eta import (
    DOUBT,
    NOBODY,
    Capacity,
    ColdStart,
    Curve,
    Flow,
    Future,
    Running,
    Waiting,
    calibrate,
    forecast,
    stretched,
)

COLD = ColdStart(p50_s=60.0, p90_s=84.0)


def others(*, per_s: float = 0.01, jobs: int = 2, tag: float = 0.0, step: float = 5.0) -> Future:
    """Jobs of 20 s that come while others wait."""
    burst = Burst(flow="x:interactive", at=datetime(2026, 11, 30, tzinfo=UTC), jobs=jobs)
    return Future(
        arrivals=Arrivals(bursts=(burst,), now_per_s=per_s, later_per_s=per_s),
        flows={"x:interactive": Flow(tag=tag, step=step, work_s=20.0)},
    )


SOMEBODY = others()


def crew(
    *, idle: int = 0, running: int = 0, loading: tuple[float, ...] = (), starting: int = 0
) -> Capacity:
    job = Running(elapsed_s=5.0, median_s=20.0, sigma=0.3)
    return Capacity(
        idle=idle, running=(job,) * running, loading=loading, starting=starting, cold=COLD
    )


def line(*work: float) -> list[Waiting]:
    return [Waiting(work_s=each, tag=10.0 * index) for index, each in enumerate(work)]


def told(
    waiting: list[Waiting],
    capacity: Capacity,
    *,
    future: Future = NOBODY,
    samples: int = 60,
    seed: int = 1,
) -> Curve:
    return forecast(
        waiting,
        sigma=0.3,
        capacity=capacity,
        rng=random.Random(seed),
        future=future,
        samples=samples,
    )


def test_an_idle_worker_starts_the_first_job_at_once() -> None:
    assert told(line(10.0), crew(idle=1)).at(0.0) == (0.0, 0.0)


def test_a_job_behind_a_running_one_waits_for_what_is_left_of_it() -> None:
    p50, p90 = told(line(10.0), crew(running=1), samples=400).at(0.0)
    assert p50 == pytest.approx(15.0, rel=0.15)
    assert p90 == pytest.approx(24.4, rel=0.15)


def test_a_loading_worker_comes_sooner_than_one_that_is_starting() -> None:
    assert told([], crew(loading=(40.0,))).at(0.0)[0] < told([], crew(starting=1)).at(0.0)[0]


def test_where_no_worker_is_one_is_taken_to_be_starting() -> None:
    assert told(line(5.0), crew()) == told(line(5.0), crew(starting=1))


def test_a_long_line_takes_its_work_over_the_workers() -> None:
    p50, p90 = told(line(*[30.0] * 150), crew(idle=4)).at(150 * 30.0)
    assert p50 == pytest.approx(150 * 30.0 / 4, rel=0.05)
    assert p50 < p90 < 1.2 * p50


def test_beyond_the_sampled_positions_it_goes_on_as_before() -> None:
    curve = told(line(*[30.0] * 1000), crew(idle=4))
    p50, p90 = curve.at(1000 * 30.0)
    assert p50 == pytest.approx(1000 * 30.0 / 4, rel=0.05)
    sampled_p50, sampled_p90 = curve.at(200 * 30.0)
    assert p90 / p50 == pytest.approx(sampled_p90 / sampled_p50, rel=0.03)


def test_a_curve_reaches_to_the_place_behind_the_line() -> None:
    assert told(line(*[30.0] * 45), crew(idle=4)).knots[-1][0] == 45 * 30.0


works = st.lists(st.floats(0.5, 300.0), max_size=60)
crews = st.builds(
    crew,
    idle=st.integers(0, 3),
    running=st.integers(0, 3),
    loading=st.lists(st.floats(0, 200), max_size=2).map(tuple),
    starting=st.integers(0, 2),
)


@settings(max_examples=30, deadline=None)
@given(
    works, crews, st.sampled_from([NOBODY, SOMEBODY]), st.lists(st.floats(0, 50_000), max_size=10)
)
def test_more_work_ahead_never_starts_sooner_and_nothing_starts_in_the_past(
    work: list[float], capacity: Capacity, future: Future, places: list[float]
) -> None:
    curve = told(line(*work), capacity, future=future, samples=20)
    answers = [curve.at(ahead) for ahead in sorted(places)]
    assert all(0 <= p50 <= p90 for p50, p90 in answers)
    assert answers == sorted(answers)
    assert [p90 for _, p90 in answers] == sorted(p90 for _, p90 in answers)


@settings(max_examples=30, deadline=None)
@given(works, st.integers(0, 3), st.integers(0, 3), st.sampled_from([NOBODY, SOMEBODY]))
def test_more_workers_never_make_a_job_wait_longer(
    work: list[float], idle: int, running: int, future: Future
) -> None:
    few = told(line(*work), crew(idle=idle, running=running, starting=1), future=future)
    more = told(line(*work), crew(idle=idle + 1, running=running, starting=1), future=future)
    late = told(line(*work), crew(idle=idle, running=running, starting=2), future=future)
    for index in range(len(work) + 1):
        ahead = sum(work[:index])
        assert more.at(ahead)[0] <= few.at(ahead)[0] + 1e-9
        assert late.at(ahead)[1] <= few.at(ahead)[1] + 1e-9


def test_those_that_come_later_and_go_first_make_a_wait_longer() -> None:
    waiting = line(*[20.0] * 50)
    alone, among = told(waiting, crew(idle=2)), told(waiting, crew(idle=2), future=SOMEBODY)
    assert among.at(1000.0)[0] > 1.1 * alone.at(1000.0)[0]


def test_those_that_stand_behind_in_fair_order_do_not_count() -> None:
    waiting = line(*[20.0] * 50)
    assert told(waiting, crew(idle=2), future=others(tag=1e6)) == told(waiting, crew(idle=2))


def test_a_flood_of_arrivals_takes_no_more_than_its_share() -> None:
    waiting = line(*[20.0] * 50)
    flood = others(per_s=10.0, jobs=50, step=10.0)
    p50 = told(waiting, crew(idle=2), future=flood).at(1000.0)[0]
    assert p50 == pytest.approx(1000.0, rel=0.1)  # two workers, half of them for the others


def test_the_same_numbers_give_the_same_curve() -> None:
    waiting = line(*[20.0] * 20)
    assert told(waiting, crew(idle=1)) == told(waiting, crew(idle=1))


def test_a_curve_survives_json() -> None:
    curve = told(line(*[7.0] * 30), crew(running=2), future=SOMEBODY)
    again = Curve.from_json(json.loads(json.dumps(curve.as_json())))
    for ahead in (0.0, 33.0, 210.0, 5000.0):
        assert again.at(ahead) == pytest.approx(curve.at(ahead), abs=0.05)


def test_nine_in_ten_start_before_the_p90_of_a_line_that_goes_as_assumed() -> None:
    rng = random.Random(5)
    curve = told(line(*[20.0] * 12), crew(running=2), samples=400)
    p90 = curve.at(12 * 20.0)[1]
    late = 0
    for _ in range(2000):
        each_s = 20 * rng.lognormvariate(0, DOUBT)
        free = sorted(max(20 * rng.lognormvariate(0, 0.3) - 5, 0.4) for _ in range(2))
        for _ in range(12):
            free = sorted([free[0] + each_s * rng.lognormvariate(-0.045, 0.3), free[1]])
        late += free[0] > p90
    assert 0.05 < late / 2000 < 0.15


def test_a_start_that_is_certain_stays_so_however_wrong_others_were() -> None:
    assert stretched(0.0, 0.0, factor=4.0) == 0.0
    assert stretched(10.0, 11.0, factor=2.0) < 2 * 11.0


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0.5, 4.0), st.floats(0.5, 4.0))
def test_a_larger_factor_makes_no_p90_sooner_and_none_lies_before_its_p50(
    p50: float, beyond: float, one: float, other: float
) -> None:
    low, high = (stretched(p50, p50 + beyond, factor=each) for each in sorted((one, other)))
    assert p50 <= low <= high


@pytest.mark.parametrize(
    ("misses", "low", "high"), [(0.0, 0, 0.7), (0.1, 0.8, 1.25), (0.2, 1.4, 4)]
)
def test_the_factor_settles_where_one_in_ten_is_late(
    misses: float, low: float, high: float
) -> None:
    rng = random.Random(3)
    factor = 1.0
    for _ in range(1000):
        factor = calibrate(factor, missed=rng.random() < misses)
    assert low <= factor <= high


def test_the_factor_has_bounds() -> None:
    low = high = 1.0
    for _ in range(8000):
        low, high = calibrate(low, missed=False), calibrate(high, missed=True)
    assert (low, high) == (0.5, 4.0)
