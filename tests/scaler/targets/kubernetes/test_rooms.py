"""Used cards are filled first, and no card twice."""

from __future__ import annotations

from scaler.targets.kubernetes.rooms import Rooms


def test_a_used_card_is_filled_before_a_free_one() -> None:
    rooms = Rooms({"a": "n", "b": "n"})
    rooms.hold(["b"], share=0.5)
    assert rooms.take(share=0.25) == ("b",)
    assert rooms.take(share=0.25) == ("b",)
    assert rooms.take(share=0.25) == ("a",)


def test_room_in_pieces_is_no_room_for_a_whole_card() -> None:
    rooms = Rooms({"a": "n", "b": "n"})
    rooms.hold(["a", "b"], share=0.1)
    assert rooms.take(share=1.0) is None
    assert rooms.take(share=0.9) is not None


def test_a_used_card_of_another_node_is_filled_before_a_free_one() -> None:
    rooms = Rooms({"a": "one", "b": "two"})
    rooms.hold(["b"], share=0.5)
    assert rooms.take(share=0.25) == ("b",)


def test_a_tenth_beside_nine_tenths_fills_a_card() -> None:
    rooms = Rooms({"a": "n"})
    assert rooms.take(share=0.9) == ("a",)
    assert rooms.take(share=0.1) == ("a",)
    assert rooms.take(share=0.1) is None


def test_several_cards_come_from_one_node() -> None:
    rooms = Rooms({"a": "one", "b": "two", "c": "two"})
    assert rooms.take(share=1.0, count=2) == ("b", "c")
    assert rooms.take(share=1.0, count=2) is None


def test_who_stands_on_a_node_holds_a_card_of_that_node() -> None:
    rooms = Rooms({"a": "one", "b": "two"})
    assert rooms.take(share=1.0, node="two") == ("b",)
    assert rooms.take(share=1.0, node="two") is None


def test_a_card_that_is_not_there_cannot_be_held() -> None:
    rooms = Rooms({"a": "n"})
    assert not rooms.hold(["a", "gone"], share=1.0)
    assert rooms.take(share=1.0) is None


def test_who_needs_no_card_always_has_room() -> None:
    assert Rooms({}).take(share=1.0, count=0) == ()
