from __future__ import annotations

from typing import Any

import pytest

from foldline.api.outage import FAILURES, REST_S, WITHIN_S, Outage
from foldline.errors import DatabaseUnavailable


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A hand-driven `time.monotonic`."""

    class Clock:
        now = 100.0

    monkeypatch.setattr("foldline.api.outage.time.monotonic", lambda: Clock.now)
    return Clock


def is_refused(outage: Outage) -> bool:
    try:
        outage.refuse()
    except DatabaseUnavailable:
        return True
    return False


def test_a_failure_or_two_refuse_nobody(clock: Any) -> None:
    outage = Outage()
    for _ in range(FAILURES - 1):
        outage.failed()
    assert not is_refused(outage)


def test_failures_in_a_row_refuse_for_half_a_second_and_then_one_is_enough(clock: Any) -> None:
    outage = Outage()
    for _ in range(FAILURES):
        outage.failed()
    assert is_refused(outage)
    clock.now += REST_S
    assert not is_refused(outage)
    outage.failed()
    assert is_refused(outage)


def test_failures_far_apart_refuse_nobody(clock: Any) -> None:
    outage = Outage()
    for _ in range(10):
        outage.failed()
        clock.now += WITHIN_S / (FAILURES - 1)
        assert not is_refused(outage)
