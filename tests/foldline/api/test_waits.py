from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from foldline.api.waits import in_words, poll_after_s, with_doubts
from foldline.forecasts.prospects import UNKNOWN, Prospect
from foldline.jobs.blocked import Blocked

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def after(seconds: float, **more: Any) -> Prospect:
    """A start so many seconds from now."""
    return Prospect(start_p50=NOW + timedelta(seconds=seconds), **more)


@pytest.mark.parametrize(
    ("prospect", "blocked", "words"),
    [
        (
            after(240, position=9),
            Blocked.MODEL_LOADING,
            "8 ahead, about 4 min, model is loading",
        ),
        (after(3, position=1), None, "next, a few seconds"),
        (after(44, position=2), Blocked.NO_CAPACITY, "1 ahead, about 40 s"),
        (
            after(7300, position=500),
            Blocked.FAIR_SHARE,
            "499 ahead, about 2 h, jobs of others go first",
        ),
        (Prospect(position=3), Blocked.PAUSED, "2 ahead, model is paused"),
        (UNKNOWN, Blocked.NO_CAPACITY, "no worker is free"),
        (UNKNOWN, None, None),
    ],
)
def test_the_wait_in_words(prospect: Prospect, blocked: Blocked | None, words: str | None) -> None:
    assert in_words(prospect, blocked=blocked, now=NOW) == words


@pytest.mark.parametrize("blocked", list(Blocked))
def test_every_reason_has_words(blocked: Blocked) -> None:
    assert in_words(UNKNOWN, blocked=blocked, now=NOW)


@pytest.mark.parametrize(
    ("lane", "left_s", "poll_s"),
    [
        ("online", None, 1),
        ("long", None, 5),
        ("online", 0, 1),
        ("online", 30, 15),
        ("long", 4, 5),
        ("bulk", 86_400, 60),
    ],
)
def test_who_has_long_to_wait_is_told_to_ask_later(
    lane: str, left_s: float | None, poll_s: int
) -> None:
    finish = None if left_s is None else NOW + timedelta(seconds=left_s)
    assert poll_after_s(lane, Prospect(finish_p50=finish), now=NOW) == poll_s


@pytest.mark.parametrize(("lane", "poll_s"), [("online", 15), ("long", 15), ("bulk", 15)])
def test_who_is_held_is_not_told_to_ask_every_second(lane: str, poll_s: int) -> None:
    """There is a forecast, and it cannot tell when the job's turn comes."""
    assert poll_after_s(lane, Prospect(as_of=NOW), now=NOW) == poll_s


def test_a_start_that_is_rather_too_late_is_a_warning() -> None:
    old = {"code": "old", "message": "old"}
    for start_by, codes in (
        (None, ["old"]),
        (NOW + timedelta(seconds=99), ["old", "deadline_unlikely"]),
        (NOW + timedelta(seconds=101), ["old"]),
    ):
        warned = with_doubts([old], after(100), start_by=start_by)
        assert [warning["code"] for warning in warned] == codes
    assert with_doubts([], UNKNOWN, start_by=NOW) == []
