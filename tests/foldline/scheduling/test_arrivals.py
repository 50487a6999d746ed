from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from foldline.scheduling.arrivals import CALMS_S, LATELY_S, Arrivals, arrivals

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_where_nothing_came_nothing_is_expected() -> None:
    assert arrivals([], now=NOW) == Arrivals()
    assert Arrivals().per_s(0.0) == 0.0


def test_jobs_of_one_flow_that_come_together_are_one_burst() -> None:
    came = [(ago(100), "a"), (ago(99), "b"), (ago(95), "a"), (ago(86), "a"), (ago(60), "a")]
    seen = arrivals(came, now=NOW)
    assert [(burst.flow, burst.jobs) for burst in seen.bursts] == [("a", 3), ("b", 1), ("a", 1)]


def test_what_came_lately_says_more_of_the_next_minutes_than_of_the_next_hours() -> None:
    quiet = [(ago(80_000 - 4_000 * index), "a") for index in range(19)]
    busy = [(ago(600 - 60 * index), "b") for index in range(9)]
    seen = arrivals([*quiet, *busy], now=NOW)
    assert seen.per_s(0.0) == pytest.approx(9 / LATELY_S)
    assert seen.per_s(10 * CALMS_S) == pytest.approx(28 / 80_000, rel=0.01)
    rates = [seen.per_s(100.0 * index) for index in range(20)]
    assert rates == sorted(rates, reverse=True)
