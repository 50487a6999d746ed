from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from benchmarks.traces import Call, drifting, expected_s, losing, steady

DAYS = 3


@pytest.fixture(scope="module")
def traces() -> list[tuple[Call, ...]]:
    return [steady(seed, days=DAYS).calls for seed in range(1, 9)]


def variation(calls: Sequence[Call]) -> float:
    gaps = [later.at_s - call.at_s for call, later in pairwise(calls)]
    return pstdev(gaps) / fmean(gaps)


def test_the_times_between_calls_vary_as_in_the_public_trace(
    traces: list[tuple[Call, ...]],
) -> None:
    assert fmean(map(variation, traces)) == pytest.approx(12, rel=0.1)


def test_seven_minutes_in_ten_are_idle(traces: list[tuple[Call, ...]]) -> None:
    busy = [len({int(call.at_s // 60) for call in calls}) for calls in traces]
    assert 1 - fmean(busy) / (DAYS * 1440) == pytest.approx(0.70, abs=0.03)


def test_calls_take_as_long_as_in_the_public_trace(traces: list[tuple[Call, ...]]) -> None:
    seconds = sorted(call.seconds for calls in traces for call in calls)
    for share, expected in ((0.5, 23), (0.9, 53), (0.99, 106)):
        assert seconds[int(share * len(seconds))] == pytest.approx(expected, rel=0.06)
    assert seconds[-1] <= 567


def test_what_a_size_does_not_explain_is_a_spread_of_three_tenths(
    traces: list[tuple[Call, ...]],
) -> None:
    residuals = [math.log(c.seconds / expected_s(c.size)) for calls in traces for c in calls]
    assert 0.30 <= pstdev(residuals) <= 0.35


def test_there_are_several_tenants_in_both_classes(traces: list[tuple[Call, ...]]) -> None:
    assert len({(call.tenant, call.priority) for call in traces[0]}) == 10


def test_a_drifting_trace_takes_twice_as_long_at_noon() -> None:
    calls = [call for seed in range(1, 5) for call in drifting(seed, days=2).calls]
    slower = {0: [], 12: []}  # type: dict[int, list[float]]
    for call in calls:
        hour = int(call.at_s // 3600) % 24
        if hour in slower:
            slower[hour].append(math.log(call.seconds / expected_s(call.size)))
    assert math.exp(fmean(slower[12]) - fmean(slower[0])) == pytest.approx(2.0, rel=0.15)


def test_a_losing_trace_is_the_steady_one_with_losses() -> None:
    trace = losing(3, days=1)
    assert trace.calls == steady(3, days=1).calls
    assert len(trace.losses_s) == 4
