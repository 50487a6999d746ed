from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.scheduling.estimate import LEAST_SIGMA, ServiceTimes, bucket, remainder_s


def seen(*pairs: tuple[float, int]) -> ServiceTimes:
    times = ServiceTimes()
    for seconds, size in pairs:
        times = times.observe(seconds, size=size)
    return times


def learned(
    count: int, *, sigma: float = 0.3, size: int = 200, middle: float = 20.0
) -> ServiceTimes:
    rng = random.Random(7)
    return seen(*((middle * rng.lognormvariate(0, sigma), size) for _ in range(count)))


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_larger_input_never_lies_in_a_smaller_bucket(one: int, other: int) -> None:
    assert (bucket(one) <= bucket(other)) or one > other


def test_there_are_two_buckets_to_a_doubling() -> None:
    assert [bucket(size) for size in (0, 1, 2, 4, 8)] == [0, 1, 3, 5, 7]


def test_nothing_is_known_of_a_model_that_never_ran() -> None:
    times = ServiceTimes()
    assert times.median_s(10) is None
    assert times.mean_s(10) is None
    assert times.sigma(10) > 0.3


def test_a_size_never_seen_takes_what_the_model_takes() -> None:
    times = seen(*[(10.0, 100)] * 5)
    assert times.median_s(10_000) == pytest.approx(10.0)


def test_a_time_shorter_than_what_is_kept_of_it_is_learned_from() -> None:
    """Of a call that many small jobs share."""
    assert seen((0.0001, 100), (0.0001, 100), (1.0, 100)).model.count == 3


def test_a_bucket_is_believed_the_more_it_has_seen() -> None:
    small = [(10.0, 100)] * 30
    once, often = seen(*small, (100.0, 5000)), seen(*small, *[(100.0, 5000)] * 20)
    first, later = once.median_s(5000), often.median_s(5000)
    assert first is not None
    assert later is not None
    assert 10.0 < first < 40.0
    assert 70.0 < later <= 100.0


def test_one_job_takes_the_median_and_a_sum_grows_by_the_mean() -> None:
    times = seen(*[(10.0, 200), (10.0, 200), (10.0, 200), (90.0, 200)] * 40)
    assert times.median_s(200) == pytest.approx(10.0)
    assert times.mean_s(200) == pytest.approx(32.0, rel=0.15)


def test_a_mean_follows_a_change_within_tens_of_jobs() -> None:
    mean = seen(*[(10.0, 100)] * 100, *[(20.0, 100)] * 40).mean_s(100)
    assert mean == pytest.approx(20.0, rel=0.1)


def test_the_spread_of_what_was_seen_is_found() -> None:
    assert learned(500, sigma=0.3).sigma(200) == pytest.approx(0.3, rel=0.35)
    assert seen(*[(10.0, 100)] * 500).sigma(100) == pytest.approx(LEAST_SIGMA, rel=0.1)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_time_says_nothing(seconds: float) -> None:
    assert seen((seconds, 10)) == ServiceTimes()


@given(st.floats(0, 1e5), st.floats(0.01, 0.99), st.floats(0.1, 1e4), st.floats(0.05, 1.5))
def test_what_is_left_of_a_job_is_never_in_the_past(
    elapsed_s: float, share: float, median_s: float, sigma: float
) -> None:
    left = remainder_s(share, elapsed_s=elapsed_s, median_s=median_s, sigma=sigma)
    assert left > 0


def test_a_job_that_has_run_for_long_has_what_such_jobs_have_left() -> None:
    rng = random.Random(2)
    ends = [20 * rng.lognormvariate(0, 0.3) for _ in range(20_000)]
    late = sorted(end - 25 for end in ends if end > 25)
    left = remainder_s(0.5, elapsed_s=25.0, median_s=20.0, sigma=0.3)
    assert left == pytest.approx(late[len(late) // 2], rel=0.05)


def test_the_longer_a_job_has_run_the_less_is_left_and_the_later_it_ends() -> None:
    run_s = (0, 5, 10, 15, 20, 30)
    left = [remainder_s(0.5, elapsed_s=ran, median_s=20.0, sigma=0.3) for ran in run_s]
    ends = [ran + rest for ran, rest in zip(run_s, left, strict=True)]
    assert left == sorted(left, reverse=True)
    assert ends == sorted(ends)


def test_statistics_survive_json() -> None:
    times = learned(60, middle=33.3)
    again = ServiceTimes.from_json(json.loads(json.dumps(times.as_json())))
    for size in (0, 100, 200, 300):
        assert again.mean_s(size) == pytest.approx(times.mean_s(size), rel=1e-3)
        assert again.median_s(size) == pytest.approx(times.median_s(size), rel=1e-3)
        assert again.sigma(size) == pytest.approx(times.sigma(size), rel=1e-2)
    assert ServiceTimes.from_json({}) == ServiceTimes()
