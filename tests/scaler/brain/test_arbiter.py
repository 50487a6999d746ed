from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.brain.arbiter import arbitrate, floors_too_high, guaranteed
from scaler.brain.elastic import Bid
from scaler.brain.placement import Room, fit
from scaler.brain.policy import Floor, Policy
from tests.scaler.brain.pools import SHARES


@st.composite
def rounds(draw: st.DrawFn) -> tuple[list[Bid], dict[str, int], float]:
    """Some bids, the rights of their models, and the cards that are free."""
    bids = [
        Bid(
            model=f"m{number}",
            share=draw(st.sampled_from(SHARES)),
            held=draw(st.integers(0, 4)),
            values=tuple(draw(st.lists(st.floats(0, 1e5), max_size=6))),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    rights = {bid.model: draw(st.integers(0, 5)) for bid in bids}
    return bids, rights, draw(st.floats(0, 8))


@settings(max_examples=150, deadline=None)
@given(rounds())
def test_held_workers_stay_and_the_free_cards_suffice(
    given_round: tuple[list[Bid], dict[str, int], float],
) -> None:
    bids, rights, free = given_round
    award = arbitrate(bids, free=free, floors=rights)
    assert all(award.desired[bid.model] >= bid.held for bid in bids)
    given_away = sum((award.desired[bid.model] - bid.held) * bid.share for bid in bids)
    assert given_away <= free + 1e-5


@settings(max_examples=150, deadline=None)
@given(rounds())
def test_a_right_is_met_or_told_and_always_met_when_all_can_be(
    given_round: tuple[list[Bid], dict[str, int], float],
) -> None:
    bids, rights, free = given_round
    award = arbitrate(bids, free=free, floors=rights)
    for bid in bids:
        missing = rights[bid.model] - award.desired[bid.model]
        assert award.short.get(bid.model, 0) == max(0, missing)
    need = sum(max(0, rights[bid.model] - bid.held) * bid.share for bid in bids)
    assert need > free or not award.short


@settings(max_examples=100, deadline=None)
@given(rounds(), st.randoms(use_true_random=False))
def test_the_order_of_the_bids_does_not_matter(
    given_round: tuple[list[Bid], dict[str, int], float], chance: random.Random
) -> None:
    bids, rights, free = given_round
    mixed = chance.sample(bids, len(bids))
    assert arbitrate(bids, free=free, floors=rights) == arbitrate(mixed, free=free, floors=rights)


def offer(model: str, share: float, *values: float, held: int = 0) -> Bid:
    return Bid(model=model, share=share, held=held, values=values)


def test_the_highest_value_a_card_goes_first() -> None:
    bids = [offer("low", 1, 50, 40), offer("high", 0.5, 90, 60, 30)]
    assert arbitrate(bids, free=2, floors={}).desired == {"low": 1, "high": 2}


def test_a_right_goes_before_any_value() -> None:
    bids = [offer("low", 1, 1), offer("high", 1, 9_999, 9_999)]
    assert arbitrate(bids, free=1, floors={"low": 1}).desired == {"low": 1, "high": 0}


def test_the_model_furthest_below_its_right_goes_first() -> None:
    bids = [offer("most", 1, held=3), offer("none", 1)]
    award = arbitrate(bids, free=1, floors={"most": 4, "none": 1})
    assert (award.desired["none"], award.short) == (1, {"most": 1})


def test_a_whole_card_that_does_not_fit_keeps_nobody_small_out() -> None:
    bids = [offer("whole", 1, 900), offer("small", 0.125, 5, 4)]
    award = arbitrate(bids, free=0.5, floors={"whole": 1})
    assert award.desired == {"whole": 0, "small": 2}
    assert award.short == {"whole": 1}


def test_a_worker_of_no_value_gets_no_card() -> None:
    assert arbitrate([offer("idle", 1, 0.0)], free=8, floors={}).desired == {"idle": 0}


def test_equal_bids_are_served_by_name() -> None:
    bids = [offer("b", 1, 10), offer("a", 1, 10)]
    assert arbitrate(bids, free=1, floors={}).desired == {"a": 1, "b": 0}


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        Floor, workers=st.integers(1, 8), after_s=st.floats(0, 600), step_s=st.floats(0, 600)
    ),
    st.integers(0, 6),
    st.integers(0, 40),
    st.floats(0, 9_000),
    st.floats(0, 9_000),
)
def test_a_right_grows_with_the_wait_and_is_whole_in_the_end(
    floor: Floor, have: int, waiting: int, one_s: float, other_s: float
) -> None:
    sooner, later = (
        guaranteed(floor, have=have, waiting=waiting, oldest_s=each)
        for each in sorted((one_s, other_s))
    )
    assert 0 <= sooner <= later <= min(floor.workers, have + waiting)
    if waiting and max(one_s, other_s) >= floor.after_s + floor.step_s * floor.workers + 1e-6:
        assert later == min(floor.workers, have + waiting)


def test_without_waiting_jobs_there_is_no_right() -> None:
    assert guaranteed(Floor(workers=5), have=3, waiting=0, oldest_s=9_999) == 0


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SHARES), st.integers(0, 9)), max_size=5), st.integers(1, 12)
)
def test_floors_that_are_accepted_can_all_be_placed(
    floors: list[tuple[float, int]], cards: int
) -> None:
    policies = [
        Policy(model=f"m{number}", share=share, cold_s=60, min_workers=count)
        for number, (share, count) in enumerate(floors)
    ]
    if floors_too_high(policies, cards=cards) is not None:
        return
    free = {f"card-{number}": 1.0 for number in range(cards)}
    for policy in sorted(policies, key=lambda each: -each.share):
        for _ in range(policy.min_workers):
            rooms = [Room(card=card, free=left) for card, left in free.items()]
            card = fit(rooms, share=policy.share)
            assert card is not None
            free[card] -= policy.share


def test_floors_that_exceed_the_cards_are_told_in_words() -> None:
    big = Policy(model="big", share=1, cold_s=90, floor=Floor(workers=3))
    other = replace(big, model="other", floor=Floor(), min_workers=2)
    assert floors_too_high([big, other], cards=5) is None
    told = floors_too_high([big, other], cards=4)
    assert told == (
        "the floors ask for 5 cards and there are 4 (big 3, other 2); "
        "no worker is asked to leave for a floor until that is settled"
    )


def test_a_right_to_a_turn_is_no_floor() -> None:
    """Twelve whole-card models on eight cards are no mistake: they take turns."""
    many = [Policy(model=f"m{number}", share=1, cold_s=90) for number in range(12)]
    assert floors_too_high(many, cards=8) is None
