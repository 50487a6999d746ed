from __future__ import annotations

from scaler.brain.draft import Draft
from scaler.brain.placement import Room
from scaler.brain.plan import Promise
from scaler.brain.policy import Policy
from scaler.brain.views import State, Worker

HALF = Policy(model="half", share=0.5, cold_s=60)
BIG = Policy(model="big", share=1.0, cold_s=90)


def worker(name: str, card: str, state: State, *, policy: Policy = HALF) -> Worker:
    return Worker(
        name=name, model=policy.model, card=card, share=policy.share, state=state, left_s=30
    )


def draft(*workers: Worker, cards: int = 1, promises: tuple[Promise, ...] = ()) -> Draft:
    return Draft(
        cards=[f"card-{number}" for number in range(cards)],
        workers=workers,
        policies={"half": HALF, "big": BIG},
        promises=promises,
    )


KEPT = Promise(card="card-0", model="big", share=1.0)


def test_only_idle_workers_hold_no_card() -> None:
    assert draft(worker("w", "card-0", "idle")).unheld() == 1
    holding: tuple[State, ...] = ("busy", "loading", "draining")
    for state in holding:
        assert draft(worker("w", "card-0", state)).unheld() == 0.5


def test_what_leaves_a_kept_card_is_counted_once() -> None:
    assert draft(worker("w", "card-0", "draining"), promises=(KEPT,), cards=2).unheld() == 1
    part = Promise(card="card-0", model="half", share=0.5)
    assert draft(worker("w", "card-0", "draining"), promises=(part,)).unheld() == 0.5


def test_a_kept_card_has_no_room_for_others() -> None:
    seen = draft(worker("w", "card-0", "draining"), promises=(KEPT,), cards=2)
    assert seen.rooms() == [Room(card="card-0", free=-0.5), Room(card="card-1", free=1.0)]
    assert seen.start("half")
    assert seen.starts[0].card == "card-1"


def test_a_card_that_was_taken_away_is_no_room() -> None:
    seen = draft(
        worker("w", "gone", "idle"), promises=(Promise(card="gone", model="big", share=1),)
    )
    assert [room.card for room in seen.rooms()] == ["card-0"]
    assert seen.promises == []
    seen.send_away("w")
    assert [room.card for room in seen.rooms()] == ["card-0"]


def test_a_worker_nobody_has_placed_takes_the_fullest_card_with_room() -> None:
    seen = draft(worker("w", "card-1", "busy"), worker("p", "", "loading"), cards=2)
    assert [room.free for room in seen.rooms()] == [1.0, 0.0]


def test_a_promised_card_counts_as_a_worker_that_loads() -> None:
    seen = draft(worker("w", "card-0", "draining"), promises=(KEPT,))
    assert seen.crew(BIG).loading == (30 + 90,)
    assert seen.present("big").loading == ()
