from __future__ import annotations

from datetime import UTC, datetime

import pytest

from foldline.client.patience import Patience, may_pass, seconds_of

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
PATIENCE = Patience(total_s=100, first_s=1, most_s=8)


@pytest.mark.parametrize(("tries", "ceiling"), [(1, 1), (2, 2), (3, 4), (4, 8), (9, 8), (5000, 8)])
def test_a_pause_is_drawn_from_nothing_to_a_ceiling_that_doubles(
    tries: int, ceiling: float
) -> None:
    assert PATIENCE.pause(tries=tries, spent_s=0, luck=0.0) == 0
    assert PATIENCE.pause(tries=tries, spent_s=0, luck=1.0) == ceiling


def test_no_pause_goes_beyond_the_time_there_is() -> None:
    assert PATIENCE.pause(tries=4, spent_s=92, luck=1.0) == 8
    assert PATIENCE.pause(tries=4, spent_s=93, luck=1.0) is None
    assert PATIENCE.pause(tries=1, spent_s=0, luck=0.5, retry_after_s=100) is None


def test_retry_after_is_waited_for_whatever_the_luck() -> None:
    assert PATIENCE.pause(tries=1, spent_s=0, luck=0.0, retry_after_s=30) == 30
    assert PATIENCE.pause(tries=1, spent_s=0, luck=1.0, retry_after_s=30) == 31


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Tue, 01 Dec 2026 12:00:30 GMT", 30.0),
        ("Tue, 01 Dec 2026 11:00:00 GMT", 0.0),
        ("Tue, 99 Dec 2026 11:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header, now=NOW) == seconds


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422, 425, 499])
def test_no_4xx_but_429_is_tried_again(status: int) -> None:
    assert not any(may_pass(status, retryable=told) for told in (True, False, None))


def test_429_and_5xx_go_by_their_problem() -> None:
    assert [may_pass(429, retryable=told) for told in (True, False, None)] == [True, False, True]
    assert [may_pass(500, retryable=told) for told in (True, False, None)] == [True, False, False]
    assert [may_pass(503, retryable=told) for told in (True, False, None)] == [True, False, True]
