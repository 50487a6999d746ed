"""Ten thousand seeded schedules of the whole protocol, and the bugs they must find."""

from __future__ import annotations

from collections import Counter

import pytest

from foldline.jobs.states import State
from tests.simulation import planted
from tests.simulation.house import EVENTS, House, violation

pytestmark = pytest.mark.timeout(1200)  # all of it is computing, and others compute beside it

SCHEDULES = 10_000
SCHEDULES_TO_A_BUG = 1_000


def test_ten_thousand_schedules_keep_every_promise() -> None:
    for seed in range(SCHEDULES):
        broken = violation(seed)
        assert broken is None, f"seed {seed}: {broken}"


def test_a_seed_gives_the_same_schedule_again() -> None:
    assert House(7).run().met == House(7).run().met


def test_the_schedules_come_through_everything() -> None:
    met: Counter[str] = Counter()
    for seed in range(200):
        met += House(seed).run().met
    wanted = {*EVENTS, *State, "fenced", "lost", "refused"}
    assert {name for name in wanted if met[name] < 20} == set()


def assert_caught(house: type[House], promise: str) -> None:
    """Within a thousand schedules the bug breaks this promise."""
    found = (violation(seed, house) or "" for seed in range(SCHEDULES_TO_A_BUG))
    assert any(promise in broken for broken in found)


def test_the_simulation_catches_writes_without_a_fence() -> None:
    assert_caught(planted.NoFence, "P8")


def test_the_simulation_catches_a_claim_of_anything() -> None:
    assert_caught(planted.ClaimsAnything, "P5")


def test_the_simulation_catches_tickets_published_once() -> None:
    assert_caught(planted.PublishesOnce, "P1")


def test_the_simulation_catches_a_quota_race() -> None:
    assert_caught(planted.QuotaRace, "P6")


def test_the_simulation_catches_the_cancel_of_a_terminal_job() -> None:
    assert_caught(planted.CancelsTheTerminal, "P5")


def test_the_simulation_catches_an_acknowledgement_before_the_result() -> None:
    assert_caught(planted.AcknowledgesEarly, "P4")


def test_the_simulation_catches_an_idempotency_race() -> None:
    assert_caught(planted.IdempotencyRace, "P2")


def test_the_simulation_catches_leases_by_a_workers_clock() -> None:
    assert_caught(planted.LeasesByTheWorkersClock, "lease")


def test_the_simulation_catches_leases_judged_right_after_an_outage() -> None:
    assert_caught(planted.JudgesLeasesAtOnce, "outage")


def test_the_simulation_catches_a_cancelled_job_put_back_in_line() -> None:
    assert_caught(planted.RequeuesTheCancelled, "P7")
