"""An announced call warms a worker where nobody else wants the card, and costs nobody anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.brain.decision import decide
from scaler.brain.plan import Memory, Plan
from scaler.brain.policy import Policy
from scaler.brain.views import Demand, Hint, Observation, State, Worker
from scaler.brain.warmth import EARLY_S, WARM_S
from tests.scaler.brain.pools import Case, cases, hints

NOW = 10_000.0
FOLD = Policy(model="fold", share=1.0, cold_s=60)
DOCK = Policy(model="dock", share=1.0, cold_s=60)
SOON = Hint(running=2, in_s=10.0)


def worker(name: str, model: str, card: str, state: State, **times: float) -> Worker:
    return Worker(name=name, model=model, card=card, share=1.0, state=state, **times)


def look(
    cards: int,
    *workers: Worker,
    memory: Memory | None = None,
    now: float = NOW,
    rule: Policy = FOLD,
    cramped: bool = False,
    **demands: Demand,
) -> tuple[Plan, Memory]:
    """One decision about the models `fold` and `dock`, with no jobs but those that are named."""
    seen = Observation(
        cards=tuple(f"card-{number}" for number in range(cards)),
        workers=workers,
        demands={each: demands.get(each, Demand()) for each in ("fold", "dock")},
        cramped=frozenset(["fold"] if cramped else []),
    )
    return decide(seen, policies=(rule, DOCK), memory=memory or Memory(), now=now)


def warmed(*models: str, at: float = NOW) -> Memory:
    return Memory(warm=dict.fromkeys(models, at))


def starts(plan: Plan) -> list[str]:
    return [each.model for each in plan.starts]


def stops(plan: Plan) -> list[str]:
    return [each.worker for each in plan.stops]


def reason(plan: Plan, model: str) -> str:
    return next(each.reason for each in plan.decisions if each.model == model)


# What holds for every pool.


def without_hints(case: Case) -> Case:
    demands = {
        model: replace(demand, hint=None) if isinstance(demand, Demand) else demand
        for model, demand in case.seen.demands.items()
    }
    memory = replace(case.memory, warm={})
    return replace(case, seen=replace(case.seen, demands=demands), memory=memory)


def asked(case: Case) -> Plan:
    return decide(case.seen, policies=case.policies, memory=case.memory, now=NOW)[0]


def beside(plan: Plan, *, workers: Sequence[Worker], models: set[str]) -> object:
    """All that a plan says of these models."""
    mine = {each.name for each in workers if each.model in models}
    return (
        {each.model: each.desired for each in plan.decisions if each.model in models},
        Counter(each.model for each in plan.starts if each.model in models),
        {each.worker for each in plan.stops if each.worker in mine}
        | {each.worker for each in plan.drains if each.worker in mine},
    )


@settings(max_examples=150, deadline=None)
@given(cases(), hints)
def test_an_announced_call_changes_nothing_for_any_other_model(case: Case, hint: Hint) -> None:
    plain = without_hints(case)
    model = case.policies[0].model
    demands = {**plain.seen.demands, model: Demand(hint=hint)}
    quiet = replace(plain, seen=replace(plain.seen, demands={**demands, model: Demand()}))
    told = replace(plain, seen=replace(plain.seen, demands=demands))
    others = {each.model for each in case.policies} - {model}
    before, after = asked(quiet), asked(told)
    assert beside(after, workers=case.workers, models=others) == beside(
        before, workers=case.workers, models=others
    )
    assert set(after.drains) == set(before.drains), "nobody leaves at the end of a job for it"
    assert {stop.worker for stop in after.stops} <= {stop.worker for stop in before.stops}


@settings(max_examples=150, deadline=None)
@given(cases(), hints, st.sampled_from(("idle", "loading")))
def test_a_warmed_worker_changes_nothing_for_any_other_model(
    case: Case, hint: Hint, state: State
) -> None:
    """The pool with it is decided as the pool without it."""
    plain = without_hints(case)
    rule = replace(case.policies[0], min_workers=0)
    rules = (rule, *case.policies[1:])
    others = {each.model for each in rules} - {rule.model}
    crew = tuple(each for each in case.workers if each.model != rule.model)
    left = {card: 1 - sum(w.share for w in crew if w.card == card) for card in case.seen.cards}
    card = max(sorted(left), key=lambda each: left[each])
    if left[card] < rule.share or not all(each.card for each in crew):
        return
    promises = tuple(each for each in case.memory.promises if each.model != rule.model)
    memory = replace(plain.memory, promises=promises)
    warm = Worker(
        name="warm", model=rule.model, card=card, share=rule.share, state=state, left_s=30.0
    )
    demands = {**plain.seen.demands, rule.model: Demand(hint=hint)}
    seen = replace(plain.seen, workers=crew, demands={**demands, rule.model: Demand()})
    alone = replace(plain, seen=seen, policies=rules, memory=memory)
    together = replace(
        alone,
        seen=replace(seen, workers=(*crew, warm), demands=demands),
        memory=replace(memory, warm={rule.model: NOW - 2}),
    )
    assert beside(asked(together), workers=crew, models=others) == beside(
        asked(alone), workers=crew, models=others
    )


@settings(max_examples=100, deadline=None)
@given(cases())
def test_announced_calls_never_bring_more_than_the_most_nor_a_second_worker(case: Case) -> None:
    rules = tuple(replace(each, max_workers=number) for number, each in enumerate(case.policies))
    demands = {each.model: Demand(hint=SOON) for each in rules}
    told = replace(case, policies=rules, seen=replace(case.seen, demands=demands))
    plan = asked(told)
    gone = {*stops(plan), *(each.worker for each in plan.drains)}
    staying = Counter(
        each.model for each in case.workers if each.state != "draining" and each.name not in gone
    )
    for each in rules:
        started = starts(plan).count(each.model)
        assert started == 0 or staying[each.model] + started <= max(1, each.min_workers)
        assert started <= max(each.max_workers, each.min_workers)


# One model at a time.


def test_it_warms_a_worker_on_a_free_card_and_says_why() -> None:
    plan, after = look(1, dock=Demand(hint=Hint(running=2, queued=1, in_s=5)))
    assert starts(plan) == ["dock"]
    assert reason(plan, "dock") == "warmed: 2 running and 1 waiting jobs announced it"
    assert after.warm == {"dock": NOW}


@pytest.mark.parametrize("hint", [Hint(running=1), Hint(running=40, queued=500)])
def test_it_counts_once_however_many_announce_it(hint: Hint) -> None:
    assert starts(look(6, dock=Demand(hint=hint))[0]) == ["dock"]


def test_without_a_free_card_it_does_nothing() -> None:
    for state in ("busy", "loading", "draining", "idle"):
        holder = worker("w1", "fold", "card-0", state, left_s=5.0)
        plan, after = look(1, holder, dock=Demand(hint=SOON))
        assert (plan.starts, plan.stops, plan.drains) == ((), (), ()), state
        assert not after.warm
        assert "no card is free for that" in reason(plan, "dock")


def test_a_call_that_is_far_off_warms_nobody_yet() -> None:
    far = Hint(queued=1, in_s=max(EARLY_S, 2 * DOCK.cold_s) + 1)
    assert starts(look(1, dock=Demand(hint=far))[0]) == []


def test_a_model_that_may_have_none_is_not_warmed() -> None:
    assert starts(look(1, rule=replace(FOLD, max_workers=0), fold=Demand(hint=SOON))[0]) == []


def test_a_model_nobody_knows_is_not_warmed() -> None:
    seen = Observation(cards=("card-0",), workers=(), demands={"ghost": Demand(hint=SOON)})
    assert decide(seen, policies=(FOLD,), memory=Memory(), now=NOW)[0].starts == ()


def test_while_somebody_lacks_a_worker_nobody_is_warmed() -> None:
    """Two kept workers leave half of each card, and one with a job needs a whole one."""
    small = replace(DOCK, model="small", share=0.5, min_workers=2)
    crew = [
        replace(worker(f"w{number}", "small", f"card-{number}", "busy", left_s=50.0), share=0.5)
        for number in range(2)
    ]
    plan, _ = decide(
        Observation(
            cards=("card-0", "card-1"),
            workers=tuple(crew),
            demands={
                "small": Demand(),
                "dock": Demand(waiting=(60.0,)),
                "fold": Demand(hint=SOON),
            },
        ),
        policies=(replace(FOLD, share=0.5), DOCK, small),
        memory=Memory(),
        now=NOW,
    )
    assert starts(plan) == []


@pytest.mark.parametrize("state", ["idle", "loading"])
def test_it_is_the_first_to_go_when_a_card_is_wanted(state: State) -> None:
    """Before an idle worker that is only used now and then, and also while it still loads."""
    crew = (
        worker("warm", "dock", "card-0", state, for_s=1.0),
        worker("used", "dock2", "card-1", "idle", for_s=50.0),
    )
    other = replace(DOCK, model="dock2")
    seen = Observation(
        cards=("card-0", "card-1"),
        workers=crew,
        demands={
            "dock": Demand(hint=SOON),
            "dock2": Demand(),
            "fold": Demand(waiting=(60.0,), oldest_s=1.0),
        },
    )
    plan, after = decide(seen, policies=(FOLD, DOCK, other), memory=warmed("dock"), now=NOW)
    assert starts(plan) == ["fold"]
    assert stops(plan) == ["warm"]
    assert plan.drains == ()
    assert not after.warm
    assert "somebody else needs the room" in reason(plan, "dock")


def test_it_stays_where_another_card_serves_as_well() -> None:
    crew = worker("warm", "dock", "card-0", "idle", for_s=1.0)
    plan, after = look(
        2, crew, memory=warmed("dock"), dock=Demand(hint=SOON), fold=Demand(waiting=(60.0,))
    )
    assert [(each.model, each.card) for each in plan.starts] == [("fold", "card-1")]
    assert stops(plan) == []
    assert after.warm == {"dock": NOW}


def test_it_stays_two_minutes_after_the_job_that_announced_it_has_ended() -> None:
    crew = worker("warm", "dock", "card-0", "idle", for_s=500.0)
    for ago, stays in ((1.0, True), (WARM_S - 1, True), (WARM_S + 1, False)):
        plan, after = look(1, crew, memory=warmed("dock", at=NOW - ago))
        assert (stops(plan) == []) is stays
        assert ("dock" in after.warm) is stays
    assert WARM_S == 120
    assert "has not come; leaves" in reason(plan, "dock")


def test_while_it_is_announced_the_time_does_not_run() -> None:
    crew = worker("warm", "dock", "card-0", "idle", for_s=5000.0)
    plan, after = look(1, crew, memory=warmed("dock", at=NOW - 90), dock=Demand(hint=SOON))
    assert stops(plan) == []
    assert after.warm == {"dock": NOW}


def test_its_first_job_makes_it_a_worker_like_any_other() -> None:
    crew = worker("warm", "dock", "card-0", "busy", left_s=9.0)
    _, after = look(1, crew, memory=warmed("dock"), dock=Demand(hint=SOON))
    assert not after.warm
    idle = worker("warm", "dock", "card-0", "idle", for_s=1.0)
    _, after = look(1, idle, memory=warmed("dock"), dock=Demand(arrived=1))
    assert not after.warm, "its job came and went between two looks"


def test_an_idle_worker_does_not_leave_just_before_an_announced_call() -> None:
    crew = worker("old", "dock", "card-0", "idle", for_s=50_000.0)
    assert stops(look(1, crew)[0]) == ["old"]
    plan, after = look(1, crew, dock=Demand(hint=SOON))
    assert stops(plan) == []
    assert starts(plan) == []
    assert after.warm == {"dock": NOW}


def test_it_goes_when_an_ordered_worker_finds_no_room_for_another_reason() -> None:
    """Such as the memory of the machine, of which the brain knows nothing."""
    crew = worker("warm", "dock", "card-0", "idle", for_s=1.0)
    plan, _ = look(3, crew, memory=warmed("dock"), cramped=True, dock=Demand(hint=SOON))
    assert stops(plan) == ["warm"]
    assert starts(plan) == []


def test_a_clock_that_was_set_back_ends_the_wait() -> None:
    crew = worker("warm", "dock", "card-0", "idle", for_s=1.0)
    assert stops(look(1, crew, memory=warmed("dock", at=NOW + 500))[0]) == ["warm"]


def test_it_says_when_a_warmed_worker_leaves() -> None:
    crew = worker("warm", "dock", "card-0", "idle", for_s=1.0)
    plan, _ = look(1, crew, memory=warmed("dock", at=NOW - 20))
    [dock] = [each for each in plan.decisions if each.model == "dock"]
    assert dock.zero_in_s == WARM_S - 20
    assert "stays 100 s for it" in dock.reason
    assert (dock.actual, dock.desired) == (1, 1)
