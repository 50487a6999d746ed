from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.brain.placement import Resident, Room, drain_plan, fit, fragmentation
from tests.scaler.brain.pools import SHARES


def rooms(*free: float) -> list[Room]:
    return [Room(card=f"card-{number}", free=each) for number, each in enumerate(free)]


def at(card: int, name: str, share: float, left_s: float = 0.0, worth: float = 0.0) -> Resident:
    return Resident(
        name=name,
        model="m",
        card=f"card-{card}",
        share=share,
        idle=not left_s,
        left_s=left_s,
        worth=worth,
    )


def test_the_fullest_card_with_room_is_taken() -> None:
    assert fit(rooms(1.0, 0.5, 0.25, 0.125), share=0.25) == "card-2"
    assert fit(rooms(1.0, 1.0), share=1.0) == "card-0"
    assert fit(rooms(0.5, 0.5), share=0.75) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=8), st.sampled_from(SHARES))
def test_a_card_is_found_when_and_only_when_one_has_room(free: list[float], share: float) -> None:
    card = fit(rooms(*free), share=share)
    able = {room.card: room.free for room in rooms(*free) if room.free + 1e-9 >= share}
    assert (card is None) == (not able)
    assert card is None or able[card] == min(able.values())


def test_fragmentation_is_the_part_nobody_of_that_size_can_use() -> None:
    assert fragmentation(rooms(1.0, 1.0), share=1.0) == 0
    assert fragmentation(rooms(0.5, 0.5), share=1.0) == 1
    assert fragmentation(rooms(1.0, 0.5, 0.5), share=1.0) == pytest.approx(0.5)
    assert fragmentation(rooms(0.0), share=1.0) == 0
    assert fragmentation(rooms(0.5, 0.5), share=0.5) == 0


def test_the_card_that_empties_soonest_is_drained() -> None:
    crowd = [
        at(0, "slow", 0.5, 900),
        at(0, "quick", 0.5, 5),
        at(1, "a", 0.5, 60),
        at(1, "b", 0.5, 60),
    ]
    plan = drain_plan(rooms(0, 0), crowd, share=1.0, spare={"m": 4})
    assert plan is not None
    assert (plan.card, plan.wait_s) == ("card-1", 60)
    assert {each.name for each in plan.leaving} == {"a", "b"}


def test_room_that_lies_idle_meanwhile_counts() -> None:
    """Ten seconds sooner, but most of a card empty for a minute and a half."""
    crowd = [
        at(0, "last", 0.125, 90),
        *(at(0, f"i{n}", 0.125, 1) for n in range(7)),
        at(1, "one", 1.0, 100),
    ]
    plan = drain_plan(rooms(0, 0), crowd, share=1.0, spare={"m": 9})
    assert plan is not None
    assert plan.card == "card-1"


def test_only_as_many_leave_as_must_the_soonest_first() -> None:
    crowd = [at(0, "a", 0.25, 300), at(0, "b", 0.25, 20), at(0, "c", 0.25), at(0, "d", 0.25, 700)]
    plan = drain_plan(rooms(0), crowd, share=0.5, spare={"m": 9})
    assert plan is not None
    assert [each.name for each in plan.leaving] == ["c", "b"]


def test_the_idle_one_that_is_worth_least_goes() -> None:
    crowd = [at(0, "dear", 0.5, worth=80), at(1, "cheap", 0.5, worth=3)]
    plan = drain_plan(rooms(0, 0), crowd, share=0.5, spare={"m": 9})
    assert plan is not None
    assert plan.leaving[0].name == "cheap"


def test_nobody_leaves_who_may_not() -> None:
    crowd = [at(0, "a", 0.5, 10), at(0, "b", 0.5, 10)]
    assert drain_plan(rooms(0), crowd, share=1.0, spare={"m": 1}) is None
    assert drain_plan(rooms(0), crowd, share=0.5, spare={}) is None
    assert drain_plan(rooms(0), crowd, share=0.5, spare={"m": 1}) is not None
