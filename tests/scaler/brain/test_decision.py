from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.brain.decision import decide
from scaler.brain.demand import Habit
from scaler.brain.plan import Decision, Memory, Plan, Promise, Start
from scaler.brain.policy import Floor, Policy
from scaler.brain.turn import TURN_S
from scaler.brain.views import Demand, Observation, State, Unread, Worker
from tests.scaler.brain.pools import Case, cases

NOW = 10_000.0
BIG = Policy(model="big", share=1.0, cold_s=90, lane="long")
HALF = Policy(model="half", share=0.5, cold_s=60)
SMALL = Policy(model="small", share=0.125, cold_s=20)


def asked(case: Case) -> Plan:
    return decide(case.seen, policies=case.policies, memory=case.memory, now=NOW)[0]


def worker(name: str, policy: Policy, card: str, state: State, **times: float) -> Worker:
    return Worker(
        name=name, model=policy.model, card=card, share=policy.share, state=state, **times
    )


def jobs(count: int, *, oldest_s: float = 5.0, each_s: float = 60.0) -> Demand:
    return Demand(waiting=(each_s,) * count, oldest_s=oldest_s)


NONE = Demand()


def look(
    cards: int,
    *workers: Worker,
    policies: tuple[Policy, ...] = (BIG, HALF, SMALL),
    memory: Memory | None = None,
    **demands: Demand | Unread,
) -> tuple[Plan, Memory]:
    """One decision on `cards` cards; models that are not named have no jobs."""
    seen = Observation(
        cards=tuple(f"card-{number}" for number in range(cards)),
        workers=workers,
        demands={each.model: demands.get(each.model, NONE) for each in policies},
    )
    return decide(seen, policies=policies, memory=memory or Memory(), now=NOW)


def of(plan: Plan, model: str) -> Decision:
    return next(each for each in plan.decisions if each.model == model)


# What holds for every pool.


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_busy_worker_is_never_stopped(case: Case) -> None:
    plan = asked(case)
    states = {each.name: each.state for each in case.workers}
    # One that loads goes only if it was warmed for an announced call.
    model_of = {each.name: each.model for each in case.workers}
    warm = {each for each, model in model_of.items() if model in case.memory.warm}
    assert all(
        states[stop.worker] == "idle" or (states[stop.worker] == "loading" and stop.worker in warm)
        for stop in plan.stops
    )
    assert all(states[drain.worker] in {"busy", "loading"} for drain in plan.drains)
    orders = Counter([*(each.worker for each in plan.stops), *(d.worker for d in plan.drains)])
    assert all(times == 1 for times in orders.values())


@settings(max_examples=60, deadline=None)
@given(cases())
def test_no_card_is_ever_over_filled(case: Case) -> None:
    plan = asked(case)
    rules = {each.model: each for each in case.policies}
    stopped = {stop.worker for stop in plan.stops}
    held = dict.fromkeys(case.seen.cards, 0.0)
    unknown = 0.0
    for each in case.workers:
        if each.name in stopped:
            continue
        if each.card:
            held[each.card] += each.share
        else:
            unknown += each.share
    for start in plan.starts:
        held[start.card] += rules[start.model].share
    started_on = {start.card for start in plan.starts}
    assert all(held[card] <= 1 + 1e-6 for card in started_on)
    assert sum(held.values()) + unknown <= len(held) + 1e-6 or not plan.starts


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_job_nobody_serves_wins_a_worker_or_a_card_that_empties(case: Case) -> None:
    """Whatever the others hold, if they wait for nothing; floods are simulated elsewhere."""
    waits = case.policies[0]
    others = tuple(
        each for each in case.workers if each.model != waits.model and each.state != "draining"
    )
    seen = replace(
        case.seen,
        workers=tuple(each for each in others if each.card),
        demands={each.model: NONE for each in case.policies} | {waits.model: jobs(1)},
    )
    rules = tuple(replace(each, floor=Floor(), min_workers=0) for each in case.policies)
    memory = replace(case.memory, promises=())
    plan, after = decide(seen, policies=rules, memory=memory, now=NOW)
    served = {each.model for each in plan.starts} | {each.model for each in after.promises}
    assert waits.model in served


@settings(max_examples=40, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(case: Case, chance: random.Random) -> None:
    def shuffled(values: Iterable[Any]) -> Any:
        mixed = list(values)
        chance.shuffle(mixed)
        return tuple(mixed)

    seen = replace(
        case.seen,
        cards=shuffled(case.seen.cards),
        workers=shuffled(case.workers),
        demands=dict(shuffled(case.seen.demands.items())),
    )
    assert asked(case) == asked(replace(case, seen=seen, policies=shuffled(case.policies)))


@settings(max_examples=40, deadline=None)
@given(cases(), st.floats(-1e6, 1e6))
def test_it_answers_whatever_the_clock_says(case: Case, now: float) -> None:
    plan, _ = decide(case.seen, policies=case.policies, memory=case.memory, now=now)
    assert [each.model for each in plan.decisions] == sorted(each.model for each in case.policies)
    assert all(each.reason for each in plan.decisions)


# What cannot be read.


@settings(max_examples=30, deadline=None)
@given(cases())
def test_a_queue_that_could_not_be_read_holds_the_last_decision(case: Case) -> None:
    model = case.policies[0].model
    demands = {**case.seen.demands, model: Unread(why="the database did not answer")}
    memory = replace(case.memory, desired={model: 7})
    plan, after = decide(
        replace(case.seen, demands=demands), policies=case.policies, memory=memory, now=NOW
    )
    mine = {each.name for each in case.workers if each.model == model}
    assert model not in {each.model for each in plan.starts}
    assert not mine & ({each.worker for each in plan.stops} | {each.worker for each in plan.drains})
    assert of(plan, model).desired == 7
    assert "the database did not answer" in of(plan, model).reason
    assert after.habits.get(model) == case.memory.habits.get(model)
    assert after.desired[model] == 7


def test_a_model_nothing_was_said_about_is_held_too() -> None:
    idle = worker("w", HALF, "card-0", "idle", for_s=9_999)
    seen = Observation(cards=("card-0",), workers=(idle,), demands={})
    plan, _ = decide(seen, policies=[HALF], memory=Memory(), now=NOW)
    assert (plan.stops, of(plan, "half").desired) == ((), 1)
    assert "nothing was said" in of(plan, "half").reason


def test_workers_that_could_not_be_read_hold_everything() -> None:
    memory = Memory(desired={"half": 3})
    seen = Observation(
        cards=("card-0",), workers=Unread(why="the API server is down"), demands={"half": jobs(9)}
    )
    plan, after = decide(seen, policies=[HALF], memory=memory, now=NOW)
    assert (plan.starts, plan.stops, plan.drains) == ((), (), ())
    assert (of(plan, "half").desired, after) == (3, memory)
    assert "the API server is down" in of(plan, "half").reason
    assert "the API server is down" in plan.warnings[0]


# Out at once, in slowly.


def test_the_first_job_starts_a_worker_at_once() -> None:
    plan, _ = look(1, half=jobs(1))
    assert plan.starts == (Start(model="half", card="card-0"),)
    assert of(plan, "half").reason == "1 job waits, the oldest 5 s: from 0 to 1 workers"


def test_a_used_card_is_filled_before_an_empty_one() -> None:
    plan, _ = look(3, worker("w", HALF, "card-1", "busy", left_s=50), small=jobs(1))
    assert plan.starts == (Start(model="small", card="card-1"),)


def test_more_workers_come_as_long_as_each_is_worth_its_cold_start() -> None:
    few, _ = look(8, half=jobs(2, each_s=30))
    many, _ = look(8, half=jobs(40, each_s=300))
    assert len(few.starts) < len(many.starts) == 16


def test_the_admins_maximum_holds() -> None:
    plan, _ = look(8, policies=(replace(HALF, max_workers=2),), half=jobs(40))
    assert len(plan.starts) == 2
    paused, _ = look(8, policies=(replace(HALF, max_workers=0),), half=jobs(40))
    assert paused.starts == ()
    assert "the admin allows 0 workers" in of(paused, "half").reason


def test_the_admins_minimum_comes_without_jobs_and_stays() -> None:
    kept = replace(HALF, min_workers=1)
    plan, _ = look(1, policies=(kept,))
    assert plan.starts == (Start(model="half", card="card-0"),)
    plan, _ = look(1, worker("w", kept, "card-0", "idle", for_s=1e6), policies=(kept,))
    assert plan.stops == ()
    assert "stay by the admin's setting" in of(plan, "half").reason


def test_an_idle_worker_stays_as_long_as_calls_often_pause() -> None:
    often = Memory(habits={"half": Habit(gaps=(100.0,) * 20, bursts=(3,))})
    seldom = Memory(habits={"half": Habit(gaps=(30_000.0,) * 20, bursts=(3,))})
    idle = worker("w", HALF, "card-0", "idle", for_s=60)
    assert look(1, idle, memory=often)[0].stops == ()
    assert [stop.worker for stop in look(1, idle, memory=seldom)[0].stops] == ["w"]


def test_idle_workers_that_are_about_to_take_a_job_stay() -> None:
    crew = [worker(f"w{place}", HALF, "card-0", "idle", for_s=1e6) for place in range(2)]
    plan, _ = look(1, *crew, half=jobs(2))
    assert (plan.starts, plan.stops) == ((), ())


def test_idle_workers_go_one_at_a_time_the_longest_idle_first() -> None:
    crew = [worker(f"w{age}", HALF, "card-0", "idle", for_s=age) for age in (4000.0, 5000.0)]
    plan, memory = look(2, *crew)
    assert [stop.worker for stop in plan.stops] == ["w5000.0"]
    again, _ = look(2, crew[0], memory=memory)
    assert again.stops == ()


def test_idle_workers_go_at_once_when_somebody_needs_the_card() -> None:
    crew = [worker(f"w{place}", HALF, "card-0", "idle", for_s=10) for place in range(2)]
    plan, _ = look(1, *crew, big=jobs(1))
    assert len(plan.stops) == 2
    assert plan.starts == (Start(model="big", card="card-0"),)


def test_idle_workers_that_are_scattered_make_room_on_one_card() -> None:
    """Capacity is free, but on no card enough: one idle worker goes, the one least worth."""
    crew = (
        worker("b0", HALF, "card-0", "busy", left_s=500),
        worker("s0", SMALL, "card-0", "idle", for_s=1),
        worker("b1", HALF, "card-1", "busy", left_s=500),
        worker("s1", SMALL, "card-1", "idle", for_s=60),
    )
    plan, _ = look(2, *crew, half=jobs(1))
    assert [stop.worker for stop in plan.stops] == ["s1"]
    assert plan.starts == (Start(model="half", card="card-1"),)


def test_the_admins_minimum_stays_although_others_wait() -> None:
    least = replace(HALF, min_workers=1)
    states: tuple[State, ...] = ("idle", "busy")
    for state in states:
        plan, memory = look(
            1,
            worker("w", least, "card-0", state, for_s=1e6),
            policies=(BIG, least),
            memory=Memory(unserved_since={"big": 0}),
            big=jobs(1, oldest_s=4000),
        )
        assert (plan.stops, plan.drains, memory.promises) == ((), (), ())


SPLIT = (
    worker("b0", replace(HALF, share=0.5), "card-0", "busy", left_s=1_500),
    worker("x0", replace(HALF, model="other", share=0.625), "card-1", "busy", left_s=1_500),
    worker("x1", replace(HALF, model="other", share=0.75), "card-2", "busy", left_s=1_500),
    worker("y", replace(HALF, model="third"), "card-3", "busy", left_s=1_500),
    worker("full", replace(HALF, model="other"), "card-3", "busy", left_s=1_500),
)
"""Of four cards are free: a half, three eighths, a quarter, nothing."""


def test_where_only_one_of_two_finds_room_it_is_the_one_worth_more() -> None:
    third = replace(HALF, model="third")
    for few, many in (("half", "third"), ("third", "half")):
        waits: dict[str, Any] = {few: jobs(1, each_s=100), many: jobs(5, each_s=100)}
        plan, _ = look(4, *SPLIT, policies=(HALF, third), **waits)
        assert plan.starts == (Start(model=many, card="card-0"),)


def test_an_idle_worker_makes_room_unless_its_own_jobs_wait() -> None:
    """The half that is wanted is free on no card, but beside an idle worker of card-0."""
    other = replace(HALF, model="other")
    crew = (
        worker("x0", replace(other, share=0.375), "card-0", "busy", left_s=1_500),
        worker("s0", SMALL, "card-0", "busy", left_s=1_500),
        worker("s1", SMALL, "card-0", "idle", for_s=10),
        worker("x1", replace(other, share=0.625), "card-1", "busy", left_s=1_500),
        worker("x2", other, "card-2", "busy", left_s=1_500),
        worker("h", HALF, "card-2", "busy", left_s=1_500),
    )
    quiet, _ = look(3, *crew, policies=(HALF, SMALL), half=jobs(3))
    about_to_work, _ = look(3, *crew, policies=(HALF, SMALL), half=jobs(3), small=jobs(1))
    assert [stop.worker for stop in quiet.stops] == ["s1"]
    assert quiet.starts == (Start(model="half", card="card-0"),)
    assert (about_to_work.starts, about_to_work.stops) == ((), ())


def test_nobody_at_work_is_asked_to_leave_for_mere_value() -> None:
    """Two halves of two cards are free, and the jobs of neither worker there wait."""
    crew = (
        worker("h0", HALF, "card-0", "busy", left_s=50),
        worker("h1", HALF, "card-1", "busy", left_s=50),
        worker("b", RIGHT, "card-2", "busy", left_s=1_500),
    )
    plan, _ = look(3, *crew, policies=(RIGHT, HALF), big=jobs(9, oldest_s=10, each_s=900))
    assert (plan.starts, plan.drains) == ((), ())


# Cards that are kept.

FULL = tuple(
    worker(f"h{place}", HALF, f"card-{place // 2}", "busy", left_s=100 + place)
    for place in range(4)
)
RIGHT = replace(BIG, floor=Floor(workers=2, after_s=300, step_s=300))


def test_a_whole_card_model_gets_the_card_that_empties_soonest() -> None:
    plan, memory = look(2, *FULL, policies=(RIGHT, HALF), big=jobs(1, oldest_s=400), half=jobs(9))
    assert [drain.worker for drain in plan.drains] == ["h0", "h1"]
    assert memory.promises == (Promise(card="card-0", model="big", share=1.0),)
    assert "card-0 is kept for it, free in about 101 s" in of(plan, "big").reason


def test_nobody_leaves_for_a_right_that_a_free_card_meets() -> None:
    plan, _ = look(3, *FULL, policies=(RIGHT, HALF), big=jobs(1, oldest_s=400), half=jobs(9))
    assert (plan.starts, plan.drains) == ((Start(model="big", card="card-2"),), ())


def test_a_card_is_kept_for_one_model_at_a_time() -> None:
    """Its room is promised while it still empties: a second plan would send away too many."""
    quarter, more = replace(HALF, model="quarter", share=0.25), replace(HALF, model="more")
    kept = Memory(promises=(Promise(card="card-0", model="late", share=0.25),))
    crew = (
        worker("q0", quarter, "card-0", "draining", left_s=9),
        *(worker(f"q{n}", quarter, "card-0", "busy", left_s=10) for n in (1, 2, 3)),
        worker("h0", HALF, "card-1", "busy", left_s=900),
        worker("h1", HALF, "card-1", "busy", left_s=900),
    )
    rules = (quarter, HALF, more, replace(quarter, model="late"))
    plan, _ = look(2, *crew, policies=rules, memory=kept, late=jobs(1), more=jobs(1))
    assert [drain.worker for drain in plan.drains] == ["h0"]


def test_before_its_right_begins_nobody_leaves_for_it() -> None:
    plan, memory = look(2, *FULL, policies=(RIGHT, HALF), big=jobs(1, oldest_s=200), half=jobs(9))
    assert (plan.drains, memory.promises) == ((), ())


def test_a_right_grows_by_one_worker_a_step() -> None:
    policies = (RIGHT, replace(HALF, floor=Floor(workers=0)))
    one, _ = look(2, *FULL, policies=policies, big=jobs(9, oldest_s=400), half=jobs(9))
    two, _ = look(2, *FULL, policies=policies, big=jobs(9, oldest_s=700), half=jobs(9))
    assert (len(one.drains), len(two.drains)) == (2, 4)


def test_a_card_is_kept_first_for_who_has_none_at_all() -> None:
    late = replace(BIG, model="late")
    crew = (*FULL[2:], worker("b", RIGHT, "card-0", "busy", left_s=900))
    _, memory = look(
        2,
        *crew,
        policies=(RIGHT, late, HALF),
        big=jobs(5, oldest_s=4000),
        late=jobs(1, oldest_s=10),
    )
    assert [(each.model, each.card) for each in memory.promises] == [("late", "card-1")]


def test_nobody_else_enters_a_kept_card() -> None:
    memory = Memory(promises=(Promise(card="card-0", model="big", share=1.0),))
    leaving = worker("h0", HALF, "card-0", "draining", left_s=60)
    plan, after = look(
        1, leaving, memory=memory, big=jobs(1, oldest_s=500), half=jobs(9), small=jobs(9)
    )
    assert (plan.starts, after.promises) == ((), memory.promises)


def test_a_kept_card_is_taken_when_it_is_empty() -> None:
    memory = Memory(promises=(Promise(card="card-0", model="big", share=1.0),))
    plan, after = look(1, memory=memory, big=jobs(1, oldest_s=500), half=jobs(9))
    assert (plan.starts, after.promises) == ((Start(model="big", card="card-0"),), ())


def test_a_card_is_not_kept_for_a_model_whose_jobs_are_gone() -> None:
    memory = Memory(promises=(Promise(card="card-0", model="big", share=1.0),))
    leaving = worker("h0", HALF, "card-0", "draining", left_s=60)
    plan, after = look(1, leaving, memory=memory, half=jobs(9))
    assert after.promises == ()
    assert plan.starts == (Start(model="half", card="card-0"),)


def test_a_card_is_kept_while_its_owners_queue_cannot_be_read() -> None:
    memory = Memory(promises=(Promise(card="card-0", model="big", share=1.0),))
    plan, after = look(1, memory=memory, big=Unread(why="timeout"), half=jobs(9))
    assert (plan.starts, after.promises) == ((), memory.promises)


def test_a_promise_on_a_card_nobody_leaves_is_forgotten() -> None:
    memory = Memory(promises=(Promise(card="card-0", model="big", share=1.0),))
    stranger = worker("h0", HALF, "card-0", "busy", left_s=60)
    _, after = look(1, stranger, memory=memory, big=jobs(1), half=jobs(9))
    assert after.promises == ()


def test_the_last_worker_of_a_model_with_jobs_does_not_leave_for_a_right() -> None:
    plan, _ = look(
        1,
        worker("s0", SMALL, "card-0", "busy", left_s=5),
        policies=(RIGHT, SMALL),
        big=jobs(1, oldest_s=4000),
        small=jobs(50),
    )
    assert plan.drains == ()
    assert "no card is free" in of(plan, "big").reason


def test_after_a_whole_turn_without_any_worker_the_last_one_of_another_leaves() -> None:
    crew = worker("s0", SMALL, "card-0", "busy", left_s=5)
    waits = {"big": jobs(1, oldest_s=4000), "small": jobs(50)}
    begun = Memory(unserved_since={"big": NOW - TURN_S + 1})
    over = Memory(unserved_since={"big": NOW - TURN_S})
    early, after = look(1, crew, policies=(RIGHT, SMALL), memory=begun, **waits)
    late, _ = look(1, crew, policies=(RIGHT, SMALL), memory=over, **waits)
    assert (early.drains, after.unserved_since) == ((), begun.unserved_since)
    assert [drain.worker for drain in late.drains] == ["s0"]


def test_a_clock_that_was_set_back_begins_the_turn_again() -> None:
    crew = worker("s0", SMALL, "card-0", "busy", left_s=5)
    ahead = Memory(unserved_since={"big": NOW + 5_000})
    _, after = look(1, crew, policies=(RIGHT, SMALL), memory=ahead, big=jobs(1), small=jobs(9))
    assert after.unserved_since == {"big": NOW}


def test_idle_workers_of_an_unread_model_hold_their_cards() -> None:
    idle = worker("w", BIG, "card-0", "idle", for_s=9_999)
    plan, _ = look(1, idle, big=Unread(why="timeout"), half=jobs(3))
    assert (plan.starts, plan.stops) == ((), ())
    assert of(plan, "big").actual == 1


def test_nobody_makes_way_for_room_that_is_none() -> None:
    """The card of an idle worker that stays is not free: nobody is hurried off for its sake."""
    more = replace(BIG, model="more")
    crew = (
        worker("stays", BIG, "card-0", "idle"),
        worker("busy", more, "card-1", "busy", left_s=900),
        worker("h", HALF, "card-2", "busy", left_s=900),
        *(worker(f"s{n}", SMALL, "card-2", "idle", for_s=9_999) for n in range(2)),
    )
    rules = (BIG, HALF, SMALL, more)
    unread, _ = look(3, *crew, policies=rules, big=Unread(why="timeout"), more=jobs(3))
    kept = (replace(BIG, min_workers=1), *rules[1:])
    minimum, _ = look(3, *crew, policies=kept, more=jobs(3))
    assert len(unread.stops) == len(minimum.stops) == 1


def test_floors_that_exceed_the_cards_are_reported_and_nobody_leaves_for_them() -> None:
    greedy = replace(BIG, floor=Floor(workers=3))
    crew = (worker("b", greedy, "card-0", "busy", left_s=900), *FULL[2:])
    plan, memory = look(2, *crew, policies=(greedy, HALF), big=jobs(9, oldest_s=999))
    assert (plan.drains, memory.promises) == ((), ())
    assert "the floors ask for 3 cards and there are 2 (big 3)" in plan.warnings[0]
    assert "no card is free" in of(plan, "big").reason


def test_a_model_without_a_worker_has_its_turn_although_the_floors_exceed_the_cards() -> None:
    greedy = replace(BIG, floor=Floor(workers=3))
    plan, memory = look(2, *FULL, policies=(greedy, HALF), big=jobs(9, oldest_s=999), half=jobs(9))
    assert [each.model for each in memory.promises] == ["big"]
    assert plan.warnings != ()


def test_a_card_that_was_taken_away_stops_nobody() -> None:
    plan, _ = look(1, *FULL, half=jobs(9))
    assert (plan.starts, plan.stops, plan.drains) == ((), (), ())
    assert of(plan, "half").actual == 4


def test_a_pending_worker_holds_room_although_nobody_knows_where() -> None:
    pending = worker("p", BIG, "", "loading", left_s=90)
    plan, _ = look(1, pending, half=jobs(1))
    assert plan.starts == ()


def test_a_draining_worker_still_holds_its_card() -> None:
    plan, _ = look(1, worker("d", BIG, "card-0", "draining", left_s=60), half=jobs(1))
    assert plan.starts == ()


def test_no_cards_at_all_is_told_and_survived() -> None:
    plan, _ = look(0, worker("p", HALF, "", "loading"), half=jobs(1), big=jobs(1))
    assert plan.starts == ()
    assert "no card is free" in of(plan, "big").reason


# What it learns.


def test_the_job_of_a_draining_worker_is_no_pause() -> None:
    leaving = worker("d", HALF, "card-0", "draining", left_s=60)
    _, memory = look(1, leaving, half=jobs(2))
    assert memory.habits["half"].active == 3


# What an admin reads.


def test_it_says_when_a_model_will_be_at_zero() -> None:
    habits = Memory(habits={"half": Habit(gaps=(), bursts=(3,))})
    idle = worker("w", HALF, "card-0", "idle", for_s=20)
    plan, _ = look(1, idle, memory=habits)
    # Break-even: 60 s * (1 + 0.2 * 3 / 0.5) = 132 s, of which 20 have passed.
    assert of(plan, "half").zero_in_s is not None
    assert round(of(plan, "half").zero_in_s or 0) == 112
    assert "an idle worker stays 2 min" in of(plan, "half").reason
    assert of(plan, "big").zero_in_s == 0
    busy, _ = look(1, worker("w", HALF, "card-0", "busy", left_s=5))
    assert of(busy, "half").zero_in_s is None


def test_the_time_to_zero_counts_the_window_between_two_who_leave() -> None:
    idle = [worker(f"w{number}", HALF, "card-0", "idle", for_s=20) for number in range(2)]
    plan, memory = look(1, *idle)
    # Both are worth keeping for 112 s more; then one leaves, and 30 s later the other.
    assert round(of(plan, "half").zero_in_s or 0) == 112 + 30
    late = [replace(each, for_s=500) for each in idle]
    plan, memory = look(1, *late, memory=memory)
    assert len(plan.stops) == 1
    assert of(plan, "half").zero_in_s == 30
    again, _ = look(1, *(each for each in late if each.name != plan.stops[0].worker), memory=memory)
    assert (again.stops, of(again, "half").zero_in_s) == ((), 30)


def test_the_time_to_zero_of_who_is_above_the_most_is_the_window_alone() -> None:
    none = replace(HALF, max_workers=0)
    plan, _ = look(
        1,
        worker("w0", HALF, "card-0", "idle", for_s=1),
        worker("w1", HALF, "card-0", "idle", for_s=2),
        policies=(none,),
    )
    assert [each.worker for each in plan.stops] == ["w1"]
    assert of(plan, "half").zero_in_s == 30
