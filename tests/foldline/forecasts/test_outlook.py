from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from foldline.forecasts.outlook import Outlook, Tail, outlook_of
from foldline.forecasts.prospects import prospect_in_line, prospect_running
from foldline.jobs.blocked import Blocked
from foldline.scheduling.estimate import ServiceTimes
from foldline.scheduling.walk import COUNTED_AHEAD
from tests.foldline.forecasts.outlooks import NOW, some_outlook

FLOW = "a:interactive"


def starts(outlook: Outlook, flow: str = FLOW, *, ahead: int | None = None) -> int | None:
    spot = outlook.next_spot(flow, ahead_in_flow=ahead)
    return spot.position if spot else None


def test_it_is_the_same_after_it_was_stored() -> None:
    outlook = some_outlook(blocked=Blocked.NO_CAPACITY, knots=[[0, 0.0], [20, 200.0]])
    assert outlook_of(json.loads(json.dumps(outlook.as_json()))) == outlook


def test_a_further_job_of_a_flow_stands_as_far_behind_as_the_flow_is_spaced() -> None:
    outlook = some_outlook(waiting=100, tails={FLOW: Tail(waiting=5, position=11, spacing=2)})
    assert [starts(outlook, ahead=n) for n in (None, 5, 6, 8)] == [11, 11, 13, 17]


def test_when_jobs_of_the_flow_have_started_since_it_stands_nearer() -> None:
    outlook = some_outlook(waiting=100, tails={FLOW: Tail(waiting=5, position=11, spacing=2)})
    assert starts(outlook, ahead=3) == 7
    assert starts(replace(outlook, waiting=6), ahead=0) == 1


def test_beyond_those_that_are_counted_the_walks_number_stands_in() -> None:
    short = some_outlook(waiting=900, tails={FLOW: Tail(waiting=5, position=6)})
    long = some_outlook(waiting=900, tails={FLOW: Tail(waiting=800, position=801)})
    most = COUNTED_AHEAD
    assert [starts(short, ahead=n) for n in (most - 1, most, most + 9)] == [
        most,
        most + 1,
        most + 1,
    ]
    assert [starts(long, ahead=n) for n in (most - 1, most, 700)] == [most, 801, 801]


def test_nobody_stands_behind_more_jobs_than_wait() -> None:
    outlook = some_outlook(waiting=12, tails={FLOW: Tail(waiting=5, position=11, spacing=9)})
    assert starts(outlook, ahead=6) == 14  # 12 seen, one that came since, and it


def test_a_flow_nobody_has_heard_of_stands_where_any_newcomer_of_its_class_does() -> None:
    outlook = some_outlook(
        waiting=10,
        tails={"interactive": Tail(waiting=0, position=3), "batch": Tail(waiting=0, position=7)},
    )
    assert [starts(outlook, f"new:{c}") for c in ("interactive", "batch")] == [3, 7]


def test_a_flow_that_a_limit_holds_has_no_place() -> None:
    held = Tail(waiting=3, position=None, held_by=Blocked.QUOTA)
    assert starts(some_outlook(tails={FLOW: held})) is None


def test_work_ahead_is_read_between_the_knots_and_beyond_the_last() -> None:
    outlook = some_outlook(waiting=20, knots=[(0, 0.0), (10, 100.0), (20, 300.0)])
    assert [outlook.work_ahead_s(n) for n in (0, 5, 10, 15, 20, 30)] == [0, 50, 100, 200, 300, 450]


def test_the_p90_is_what_the_calibration_makes_of_it_and_never_before_the_p50() -> None:
    outlook = some_outlook()
    told = outlook.start_s(100, priority="interactive")
    assert told is not None
    p50, p90 = told
    assert p50 < p90
    for factor in (0.1, 2.0):
        changed = replace(outlook, factors={"interactive": factor})
        expected = pytest.approx((p50, p50 + factor * (p90 - p50)))
        assert changed.start_s(100, priority="interactive") == expected


def test_no_time_lies_in_the_past() -> None:
    now = NOW + timedelta(seconds=25)
    outlook = some_outlook(tails={FLOW: Tail(waiting=0, position=1)})
    spot = outlook.next_spot(FLOW)
    assert spot is not None
    told = prospect_in_line(outlook, spot, priority="interactive", size=0, now=now)
    times = (told.start_p50, told.start_p90, told.finish_p50, told.finish_p90)
    for time in times:
        assert time is not None
        assert time >= now


def test_what_runs_long_already_is_expected_later_and_never_in_the_past() -> None:
    outlook = some_outlook(wall=times(10.0), work=times(10.0))

    def ends(elapsed_s: float) -> float:
        begun = NOW - timedelta(seconds=elapsed_s)
        told = prospect_running(outlook, size=0, started_at=begun, now=NOW)
        assert told.finish_p50 is not None
        assert told.finish_p90 is not None
        assert told.finish_p90 >= told.finish_p50 >= NOW
        assert told.start_p50 is None
        return (told.finish_p50 - NOW).total_seconds()

    assert ends(0) == pytest.approx(10, abs=1.5)
    assert ends(5) == pytest.approx(5, abs=1.5)
    assert 0 < ends(60) < 60


def test_until_a_job_has_run_the_basis_is_an_assumption() -> None:
    for wall, basis in ((ServiceTimes(), "assumed"), (times(10.0), "history")):
        outlook = some_outlook(wall=wall, work=wall)
        told = prospect_running(outlook, size=0, started_at=NOW, now=NOW)
        assert told.basis == basis


def times(*seconds: float) -> ServiceTimes:
    known = ServiceTimes()
    for each in seconds * 20:
        known = known.observe(each, size=0)
    return known
