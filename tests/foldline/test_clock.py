"""Days and months of budgets and bills are those of UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from foldline.clock import day_of, midnight, next_month


def test_a_day_is_that_of_utc_wherever_it_is_told() -> None:
    cairo = timezone(timedelta(hours=2))
    assert day_of(datetime(2027, 1, 1, 1, 30, tzinfo=cairo)) == date(2026, 12, 31)


def test_a_day_begins_at_midnight() -> None:
    assert midnight(date(2026, 12, 31)) == datetime(2026, 12, 31, tzinfo=UTC)


@pytest.mark.parametrize("day", [date(2026, 1, 1), date(2026, 1, 31), date(2025, 12, 31)])
def test_a_month_is_followed_by_the_first_of_the_next(day: date) -> None:
    assert next_month(day) == (date(2026, 2, 1) if day.year == 2026 else date(2026, 1, 1))
