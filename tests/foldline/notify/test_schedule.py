from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from foldline.notify.schedule import (
    FIRST_REST,
    GIVE_UP_AFTER,
    GIVE_UP_FAILURES,
    JITTER,
    LONGEST_REST,
    MOST_WAIT,
    ONCE,
    REST_AFTER,
    RETRY_AFTER_S,
    Health,
    Outcome,
    Verdict,
    decide,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAILED = Outcome(status=500, error="It answered 500.")


def after(outcome: Outcome = FAILED, health: Health | None = None, **changes: Any) -> Verdict:
    fields = {"attempts": 1, "pauses": RETRY_AFTER_S, "now": NOW, "chance": 0.0, **changes}
    return decide(outcome, health or Health(), **fields)


def pause(verdict: Verdict) -> float:
    assert verdict.next_at is not None
    return (verdict.next_at - NOW).total_seconds()


class TestRetries:
    def test_ten_tries_with_the_pauses_of_standard_webhooks(self) -> None:
        pauses = [pause(after(attempts=attempt)) for attempt in range(1, 10)]
        assert pauses == [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]

    def test_the_last_failure_ends_it_and_says_so(self) -> None:
        verdict = after(attempts=10)
        assert (verdict.next_at, verdict.note) == (None, "Not taken in 10 tries.")

    @pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
    def test_a_pause_is_spread_by_chance_and_never_shorter(self, chance: float) -> None:
        assert pause(after(chance=chance)) == pytest.approx(5 * (1 + JITTER * chance))

    def test_what_was_taken_is_over(self) -> None:
        assert after(Outcome(status=204), Health(failures=9, failing_since=NOW)) == Verdict()

    def test_what_is_tried_once_is_not_tried_again(self) -> None:
        verdict = after(pauses=ONCE)
        assert (verdict.next_at, verdict.note) == (None, "Not taken in 1 try.")


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            ("120", 120),
            (" 120 ", 120),
            ("Sun, 01 Mar 2026 12:02:00 GMT", 120),
            # It only ever lengthens a pause, and a day is the most.
            ("1", 5),
            ("0", 5),
            ("Sun, 01 Mar 2026 11:00:00 GMT", 5),
            ("999999999999999999999", MOST_WAIT.total_seconds()),
            ("Fri, 01 Mar 2030 12:00:00 GMT", MOST_WAIT.total_seconds()),
            # What is neither seconds nor a date says nothing.
            ("", 5),
            ("-5", 5),
            ("1.5", 5),
            ("soon", 5),
            ("\u0661\u0662\u0660", 5),
            ("Sun, 99 Mar 2026 12:02:00 GMT", 5),
            ("Sun, 01 Mar 99999999 12:02:00 GMT", 5),
            (f"Sun, 01 Mar {'9' * 20} 12:02:00 GMT", 5),
            (f"Sun, {'9' * 12} Mar 2026 12:02:00 GMT", 5),
            (f"Sun, 01 Mar 2026 12:02:00 +{'9' * 20}", 5),
        ],
    )
    def test_it_is_honoured_within_bounds(self, header: str, seconds: float) -> None:
        outcome = Outcome(status=503, error="It answered 503.", retry_after=header)
        assert pause(after(outcome)) == seconds


class TestBreaker:
    def failing(self, failures: int, *, since: datetime = NOW) -> Health:
        return Health(failures=failures, failing_since=since)

    def test_a_single_failure_is_no_reason_to_rest(self) -> None:
        health = after().health
        assert (health.failures, health.failing_since, health.paused_until) == (1, NOW, None)

    def test_an_endpoint_that_keeps_failing_rests_longer_and_longer(self) -> None:
        rests = [
            after(health=self.failing(n)).health.paused_until for n in range(REST_AFTER - 1, 9)
        ]
        waits = [rest - NOW for rest in rests if rest]
        assert len(waits) == len(rests)
        assert waits[:3] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]
        assert waits[-1] == LONGEST_REST
        assert after(health=self.failing(10**9)).health.paused_until == NOW + LONGEST_REST

    def test_one_success_ends_it(self) -> None:
        assert after(Outcome(status=200), self.failing(50)).health == Health()

    def test_the_first_failure_is_remembered(self) -> None:
        since = NOW - timedelta(hours=3)
        assert after(health=self.failing(4, since=since)).health.failing_since == since


class TestDisabling:
    def test_410_disables_at_once(self) -> None:
        verdict = after(Outcome(status=410, error="gone"))
        assert verdict.disable == "It answered 410: it wants no more messages."

    def test_five_days_of_nothing_but_failures_disable(self) -> None:
        health = Health(failures=GIVE_UP_FAILURES - 1, failing_since=NOW - GIVE_UP_AFTER)
        assert after(health=health).disable == "It took nothing for 5 days, 20 times in a row."

    def test_less_time_or_fewer_failures_do_not(self) -> None:
        soon = Health(failures=500, failing_since=NOW - GIVE_UP_AFTER + timedelta(seconds=1))
        few = Health(failures=GIVE_UP_FAILURES - 2, failing_since=NOW - 9 * GIVE_UP_AFTER)
        assert [after(health=health).disable for health in (soon, few)] == ["", ""]
