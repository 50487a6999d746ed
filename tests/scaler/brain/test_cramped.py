"""A model without a worker that finds a card and no memory wins a worker all the same."""

from __future__ import annotations

from scaler.brain.decision import decide
from scaler.brain.plan import Memory, Plan
from scaler.brain.policy import Policy
from scaler.brain.views import Demand, Observation, State, Worker

CARDS = ("card-0", "card-1", "card-2", "card-3")
POLICIES = tuple(Policy(model=name, share=1.0, cold_s=10) for name in ("dock", "fold"))
WAITS = Demand(waiting=(5.0,), oldest_s=3.0)
TWO = Demand(waiting=(500.0,) * 2, oldest_s=300.0)
MANY = Demand(waiting=(500.0,) * 50, oldest_s=300.0)


def look(
    *workers: Worker,
    cramped: tuple[str, ...] = ("fold",),
    dock: Demand | None = None,
    fold: Demand = WAITS,
) -> Plan:
    seen = Observation(
        cards=CARDS,
        workers=workers,
        demands={"dock": dock or Demand(), "fold": fold},
        cramped=frozenset(cramped),
    )
    plan, _ = decide(seen, policies=POLICIES, memory=Memory(), now=1000.0)
    return plan


def worker(number: int, model: str, state: State, **times: float) -> Worker:
    return Worker(
        name=f"{model}-{number}", model=model, card=CARDS[number], share=1.0, state=state, **times
    )


def desired(plan: Plan) -> dict[str, int]:
    return {each.model: each.desired for each in plan.decisions}


def test_an_idle_worker_leaves_for_a_model_without_any_that_finds_no_memory() -> None:
    crew = (worker(0, "dock", "idle", for_s=1.0), worker(1, "dock", "idle", for_s=2.0))
    plan = look(*crew)
    assert [each.worker for each in plan.stops] == ["dock-1"], "one at a time, the longest idle"
    assert [each.model for each in plan.starts] == ["fold"]
    assert desired(plan) == {"dock": 1, "fold": 1}
    assert look(*crew, cramped=()).stops == ()


def test_who_computes_leaves_for_it_at_the_end_of_its_job() -> None:
    crew = (worker(0, "dock", "busy", left_s=90.0), worker(1, "dock", "busy", left_s=30.0))
    plan = look(*crew, dock=MANY)
    assert [each.worker for each in plan.drains] == ["dock-1"]
    assert plan.stops == ()
    assert [each.model for each in plan.starts] == ["fold"], "nobody comes in its place"
    assert desired(plan) == {"dock": 1, "fold": 1}


def test_the_last_worker_of_a_model_with_jobs_stays() -> None:
    plan = look(worker(0, "dock", "busy", left_s=90.0), dock=MANY)
    assert (plan.drains, plan.stops) == ((), ())


def test_nobody_leaves_for_a_further_worker_or_for_nobody_who_waits() -> None:
    idle = worker(0, "dock", "idle", for_s=1.0)
    assert look(idle, worker(1, "fold", "busy", left_s=90.0), fold=TWO).stops == ()
    assert look(idle, fold=Demand()).stops == ()
