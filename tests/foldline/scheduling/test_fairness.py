from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.scheduling.fairness import (
    DEFAULT_ESTIMATE_GPU_S,
    OVERDUE,
    Accounts,
    Head,
    bend,
    next_job,
    order,
    settle,
)
from foldline.scheduling.tags import SLEEPERS

NOW = datetime(2026, 11, 30, tzinfo=UTC)
LATE = NOW - OVERDUE - timedelta(seconds=1)
Line = list[Head]
Lines = dict[str, Line]


def head(
    number: int,
    *,
    tenant: int = 1,
    priority: str = "interactive",
    estimate: float | None = 10.0,
    since: datetime = NOW,
    weight: float = 1.0,
) -> Head:
    return Head(
        job_id=UUID(int=number),
        attempt=0,
        tenant_id=UUID(int=tenant),
        priority=priority,
        estimate_gpu_s=estimate,
        since=since,
        weight=weight,
    )


def lined_up(jobs: Sequence[Head]) -> Lines:
    lines: Lines = {}
    for job in sorted(jobs, key=lambda job: job.job_id):
        lines.setdefault(job.flow, []).append(job)
    return lines


def heads_of(lines: Lines) -> Line:
    return [line[0] for line in lines.values() if line]


def go(accounts: Accounts, lines: Lines, *, now: datetime = NOW) -> tuple[Head, Accounts]:
    """The next job leaves its line."""
    choice = next_job(accounts, heads_of(lines), now=now)
    assert choice is not None
    assert lines[choice.head.flow].pop(0) == choice.head
    return choice.head, json.loads(json.dumps(choice.accounts))


def tags(accounts: Accounts) -> dict[str, float]:
    return {**accounts["asleep"], **accounts["awake"]}


@st.composite
def jobs(draw: st.DrawFn, *, most: int = 25, first: int = 0) -> Line:
    weights = [draw(st.sampled_from([0.25, 1.0, 3.0])) for _ in range(4)]
    return [
        head(
            number,
            tenant=(tenant := draw(st.integers(0, 3))),
            priority=draw(st.sampled_from(["interactive", "batch"])),
            estimate=draw(st.none() | st.sampled_from([1.0, 10.0, 33.3, 600.0])),
            since=NOW - timedelta(seconds=draw(st.integers(0, 4000))),
            weight=weights[tenant],
        )
        for number in range(first, first + draw(st.integers(0, most)))
    ]


def test_nothing_goes_when_nobody_waits() -> None:
    assert next_job({}, [], now=NOW) is None
    assert order({}, {}, now=NOW) == []


@given(st.permutations(range(6)))
def test_the_first_come_goes_first_whatever_order_the_flows_are_read_in(
    sequence: list[int],
) -> None:
    arrived = [head(number, tenant=number) for number in range(6)]
    choice = next_job({}, [arrived[number] for number in sequence], now=NOW)
    assert choice is not None
    assert choice.head == arrived[0]


@settings(max_examples=60, deadline=None)
@given(jobs(), jobs(most=8, first=100), st.sampled_from([0.0, 7.0, 120.0]))
def test_order_is_a_sequence_of_next_job(before: Line, waiting: Line, pace_s: float) -> None:
    accounts: Accounts = {}
    past = lined_up(before)
    for _ in range(len(before) // 2):
        _, accounts = go(accounts, past)
    lines = lined_up([*(job for line in past.values() for job in line), *waiting])
    told = order(accounts, lines, now=NOW, pace_s=pace_s)
    for index, expected in enumerate(told):
        chosen, accounts = go(accounts, lines, now=NOW + index * timedelta(seconds=pace_s))
        assert chosen == expected
    assert not heads_of(lines)


@settings(max_examples=60, deadline=None)
@given(jobs(most=40))
def test_while_a_head_waits_each_other_flow_is_handed_at_most_its_bound(waiting: Line) -> None:
    """weight x lead + one job: nobody is passed over for longer."""
    lines = lined_up([replace(job, since=NOW) for job in waiting])
    accounts: Accounts = {}
    handed: dict[str, dict[str, float]] = {}
    lead: dict[str, float] = {}
    while waiting_heads := heads_of(lines):
        before = {first.flow for first in waiting_heads}
        chosen, accounts = go(accounts, lines)
        for flow in before - {chosen.flow}:
            others = handed.setdefault(flow, {})
            others[chosen.flow] = others.get(chosen.flow, 0.0) + chosen.charge_gpu_s
            weight = chosen.weight * (4 if chosen.priority == "interactive" else 1)
            assert others[chosen.flow] <= weight * lead.get(flow, 0.0) + 600.0 + 1e-6
        handed.pop(chosen.flow, None)
        lead[chosen.flow] = tags(accounts)[chosen.flow] - accounts["virtual"]


def served(lines: Lines, rounds: int, *, now: datetime = NOW) -> dict[str, float]:
    """GPU-seconds handed to each flow in so many choices."""
    accounts: Accounts = {}
    handed: dict[str, float] = {}
    for _ in range(rounds):
        chosen, accounts = go(accounts, lines, now=now)
        handed[chosen.flow] = handed.get(chosen.flow, 0.0) + chosen.charge_gpu_s
    return handed


def test_a_flow_of_short_jobs_and_one_of_long_ones_get_the_same_time() -> None:
    short = [head(number, tenant=1, estimate=1.0) for number in range(500)]
    long = [head(1000 + number, tenant=2, estimate=20.0) for number in range(30)]
    handed = served(lined_up([*short, *long]), 210)
    assert handed[short[0].flow] == pytest.approx(handed[long[0].flow], abs=20.0)


@pytest.mark.parametrize(
    ("mine", "share"),
    [
        ({"priority": "interactive"}, 4.0),
        ({"priority": "batch", "weight": 3.0}, 3.0),
        ({"priority": "batch", "weight": bend(1e9, typical_gpu_s=1.0)}, 0.25),
    ],
)
def test_a_flow_gets_time_by_its_weight(mine: dict[str, Any], share: float) -> None:
    weighed = [head(number, tenant=1, **mine) for number in range(300)]
    plain = [head(1000 + number, tenant=2, priority="batch") for number in range(300)]
    handed = served(lined_up([*weighed, *plain]), 250)
    assert handed[weighed[0].flow] / handed[plain[0].flow] == pytest.approx(share, rel=0.1)


def test_five_hundred_jobs_of_one_tenant_do_not_hold_up_another() -> None:
    mass = [head(number, tenant=1, priority="batch") for number in range(500)]
    lines = lined_up(mass)
    accounts: Accounts = {}
    for _ in range(100):
        _, accounts = go(accounts, lines)
    mine = head(9000, tenant=2)
    lines[mine.flow] = [mine]
    assert mine in [go(accounts, lines)[0], go(accounts, lines)[0]]


def test_a_flow_that_wakes_has_no_credit_for_its_sleep() -> None:
    lines = lined_up([head(1, tenant=1), *(head(number, tenant=2) for number in range(2, 200))])
    accounts: Accounts = {}
    for _ in range(100):
        _, accounts = go(accounts, lines)
    woken = [head(1000 + number, tenant=1) for number in range(50)]
    lines[woken[0].flow] = list(woken)
    chosen = []
    for _ in range(20):
        job, accounts = go(accounts, lines)
        chosen.append(job.tenant_id)
    assert chosen.count(UUID(int=1)) == 10


def test_a_flow_that_wakes_has_no_debt_for_what_nobody_else_wanted() -> None:
    alone = lined_up([head(number, tenant=1, estimate=100.0) for number in range(300)])
    accounts: Accounts = {}
    for _ in range(300):
        job, accounts = go(accounts, alone)
        accounts = ended(accounts, job, actual=1000.0)
    both = [head(1000 + number, tenant=1 + number % 2) for number in range(20)]
    accounts = next_job(accounts, [head(999, tenant=3)], now=NOW).accounts  # type: ignore[union-attr]
    lines = lined_up(both)
    chosen = []
    for _ in range(10):
        job, accounts = go(accounts, lines)
        chosen.append(job.tenant_id)
    assert chosen.count(UUID(int=1)) == 5


def ended(accounts: Accounts, job: Head, *, actual: float) -> Accounts:
    return settle(
        accounts,
        flow=job.flow,
        weight=job.weight,
        priority=job.priority,
        charged_gpu_s=job.charge_gpu_s,
        actual_gpu_s=actual,
    )


def test_what_a_job_used_replaces_what_it_was_charged() -> None:
    """Estimated at 100 s, the jobs of one flow take 1 s: it goes as often as its jobs are short."""
    wrong = [head(number, tenant=1, estimate=100.0) for number in range(400)]
    right = [head(1000 + number, tenant=2, estimate=10.0) for number in range(400)]
    lines = lined_up([*wrong, *right])
    accounts: Accounts = {}
    used = {UUID(int=1): 0.0, UUID(int=2): 0.0}
    for _ in range(220):
        job, accounts = go(accounts, lines)
        actual = 1.0 if job.tenant_id == UUID(int=1) else 10.0
        used[job.tenant_id] += actual
        accounts = ended(accounts, job, actual=actual)
    assert used[UUID(int=1)] == pytest.approx(used[UUID(int=2)], abs=11.0)


def test_a_credit_is_kept_by_a_flow_in_line_and_lost_by_one_that_sleeps() -> None:
    lines = lined_up([head(number, tenant=number % 3) for number in range(3, 30)])
    accounts: Accounts = {}
    for _ in range(3):
        _, accounts = go(accounts, lines)
    in_line, asleep = head(3, tenant=0), head(4, tenant=9)
    for job in (in_line, asleep):
        accounts = settle(
            accounts,
            flow=job.flow,
            weight=1.0,
            priority="interactive",
            charged_gpu_s=500.0,
            actual_gpu_s=100.0,
        )
    assert accounts["awake"][in_line.flow] < accounts["virtual"] - 50
    assert asleep.flow not in tags(accounts)
    lines[asleep.flow] = [head(2, tenant=9)]
    assert [go(accounts, lines)[0].flow for _ in range(1)] == [in_line.flow]


def test_overdue_batch_jobs_take_exactly_every_second_slot_oldest_first() -> None:
    fresh = [head(1000 + number, tenant=7) for number in range(60)]
    lines = lined_up(fresh)
    _, accounts = go({}, lines)
    overdue = [
        head(n, tenant=n % 5, priority="batch", since=LATE + timedelta(microseconds=n))
        for n in range(20)
    ]
    for job in overdue:  # by fair order alone they would all come last
        accounts = ended(accounts, job, actual=1e6)
    told = order(accounts, {**lines, **lined_up(overdue)}, now=NOW)[:40]
    assert told[0::2] == overdue
    assert all(job.tenant_id == UUID(int=7) for job in told[1::2])


def test_an_interactive_job_and_a_batch_job_in_time_have_no_lane() -> None:
    old = head(2, tenant=2, since=LATE)
    young = head(3, tenant=3, priority="batch", since=NOW - OVERDUE)
    first = head(1, tenant=1)
    assert order({}, lined_up([old, young, first]), now=NOW) == [first, old, young]


@pytest.mark.parametrize("step", [timedelta(days=400), timedelta(days=-400)])
def test_a_clock_that_steps_leaves_every_flow_its_turn(step: timedelta) -> None:
    waiting = [
        head(number, tenant=number % 3, priority=("batch", "interactive")[number % 2])
        for number in range(30)
    ]
    assert set(order({}, lined_up(waiting), now=NOW + step)) == set(waiting)


@pytest.mark.parametrize(
    "accounts",
    [
        {},
        {"version": 99, "virtual": 7, "awake": {head(1).flow: 50.0}},
        {"version": 1},
        {"version": 1, "virtual": "soon", "awake": [1], "asleep": None, "lane": "x"},
        {"version": 1, "virtual": float("nan"), "awake": {"x": None, "y": True, "z": 1e300}},
        {"old": {"pass": 3}},
    ],
)
def test_accounts_nobody_understands_begin_anew(accounts: dict[str, Any]) -> None:
    told = order(accounts, lined_up([head(1, tenant=1), head(2, tenant=2)]), now=NOW)
    assert [job.job_id.int for job in told] == [1, 2]
    json.dumps(
        settle(
            accounts, flow="a:batch", weight=1, priority="batch", charged_gpu_s=1, actual_gpu_s=2
        ),
        allow_nan=False,
    )


def test_accounts_forget_flows_that_sleep_and_are_not_ahead() -> None:
    accounts: Accounts = {}
    steady = [head(number, tenant=0) for number in range(5000, 9000)]
    lines = lined_up(steady)
    for number in range(200):
        one = head(9000 + number, tenant=number + 1)
        lines[one.flow] = [one]
        _, accounts = go(accounts, lines)
        _, accounts = go(accounts, lines)
    assert len(accounts["asleep"]) + len(accounts["awake"]) < 10


def test_accounts_stay_bounded_when_ever_so_many_flows_are_ahead() -> None:
    accounts: Accounts = {}
    for number in range(SLEEPERS + 20):
        accounts = settle(
            accounts,
            flow=f"{number}:batch",
            weight=1.0,
            priority="batch",
            charged_gpu_s=1.0,
            actual_gpu_s=float(number + 10),
        )
    assert len(accounts["asleep"]) == SLEEPERS
    assert f"{SLEEPERS + 19}:batch" in accounts["asleep"]


@pytest.mark.parametrize("estimate", [0.0, -5.0, float("nan"), float("inf")])
def test_no_estimate_makes_a_job_free_or_its_flow_wait_for_ever(estimate: float) -> None:
    odd = [head(number, tenant=1, estimate=estimate) for number in range(3)]
    plain = [head(100 + number, tenant=2) for number in range(3)]
    assert set(order({}, lined_up([*odd, *plain]), now=NOW)) == {*odd, *plain}
    assert 0 < odd[0].charge_gpu_s <= 1e6


def test_a_job_without_an_estimate_is_charged_a_usual_one() -> None:
    choice = next_job({}, [head(1, estimate=None)], now=NOW)
    assert choice is not None
    assert choice.charged_gpu_s == DEFAULT_ESTIMATE_GPU_S


@given(st.floats(0, 1e12), st.floats(-1, 1e9))
def test_past_use_bends_a_weight_by_four_at_most(used: float, typical: float) -> None:
    assert 0.25 <= bend(used, typical_gpu_s=typical) <= 1.0


def test_past_use_bends_a_weight_from_the_typical_use_on() -> None:
    assert [bend(used, typical_gpu_s=100.0) for used in (0, 100, 200, 300, 9999)] == [
        1.0,
        1.0,
        0.5,
        0.25,
        0.25,
    ]
