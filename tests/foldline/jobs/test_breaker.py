from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from foldline.jobs.breaker import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    Breaker,
    Cause,
    pause_s,
    read,
    written,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def after(*payloads: str) -> Breaker:
    breaker = Breaker(revision="r1")
    for payload in payloads:
        breaker = breaker.after_crash(payload, now=NOW)
    return breaker


def test_three_different_payloads_open_it() -> None:
    assert not after("a", "b").is_open
    assert after("a", "b", "c").cause is Cause.CRASHES
    assert "3 different payloads" in after("a", "b", "c").reason


def test_one_poisonous_payload_does_not_however_often_it_crashes() -> None:
    assert not after("a", "a", "b", "a", "b").is_open


def test_another_revision_starts_afresh() -> None:
    assert not after("a", "b", "c").about("r2").is_open
    assert after("a", "b", "c").about("r1").is_open


def test_a_trial_is_due_after_a_pause() -> None:
    breaker = after("a", "b", "c")
    assert not breaker.trial_is_due(NOW + timedelta(seconds=FIRST_PAUSE_S - 1))
    assert breaker.trial_is_due(NOW + timedelta(seconds=FIRST_PAUSE_S))
    assert not Breaker().trial_is_due(NOW)


def test_pauses_double_up_to_half_an_hour() -> None:
    assert [pause_s(n) for n in range(4)] == [30, 60, 120, 240]
    assert pause_s(7) == pause_s(1000) == LONGEST_PAUSE_S == 1800


def test_one_trial_is_made_at_a_time() -> None:
    begun = after("a", "b", "c").after_trial_began(NOW)
    assert not begun.trial_is_due(NOW + timedelta(seconds=pause_s(1) - 1))
    later = NOW + timedelta(seconds=500)
    crashed = begun.after_crash("d", now=later)
    assert crashed.trial_at == later + timedelta(seconds=pause_s(1))


def test_an_admin_has_it_tried_at_once_with_short_pauses_again() -> None:
    breaker = after("a", "b", "c").after_trial_began(NOW).with_trial_now(NOW)
    assert breaker.trial_is_due(NOW)
    assert breaker.after_trial_began(NOW).trial_at == NOW + timedelta(seconds=pause_s(1))


@pytest.mark.parametrize("breaker", [after("a"), after("a", "b", "c")])
def test_it_is_kept_as_json(breaker: Breaker) -> None:
    assert read(written(breaker)) == breaker


def test_there_is_nothing_to_keep_of_a_closed_one() -> None:
    assert written(Breaker(revision="r1")) is None
    assert read(None) == Breaker()
