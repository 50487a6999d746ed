"""Which card a worker goes to, and which must be emptied when none has room.

Knows shares and cards, not models' reasons. A share is the larger of a worker's parts of the
card's memory and compute, so shares that add up to one fit in both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

EPS = 1e-6
"""Of a card: what shares that add up to one may miss it by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """What is left of one card."""

    card: str
    free: float


def fit(rooms: Sequence[Room], *, share: float) -> str | None:
    """The card to take: of those with room the fullest, so used ones before empty ones."""
    able = [(room.free, room.card) for room in rooms if room.free + EPS >= share]
    return min(able)[1] if able else None


def fragmentation(rooms: Sequence[Room], *, share: float) -> float:
    """The part of the free capacity, 0 to 1, that no worker of this share can use."""
    free = sum(max(0.0, room.free) for room in rooms)
    if free <= EPS:
        return 0.0
    usable = sum(share * math.floor(room.free / share + EPS) for room in rooms if room.free > 0)
    return 1 - min(1.0, usable / free)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resident:
    """A worker on a card: its seconds to the end of its job, or what keeping it idle is worth."""

    name: str
    model: str
    card: str
    share: float
    idle: bool = False
    left_s: float = 0.0
    worth: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainPlan:
    """The residents of one card that must leave, and the seconds until the last has."""

    card: str
    leaving: tuple[Resident, ...]
    wait_s: float


def drain_plan(
    rooms: Sequence[Room],
    residents: Sequence[Resident],
    *,
    share: float,
    spare: Mapping[str, int],
) -> DrainPlan | None:
    """The cheapest way to make room for `share` on one of these cards, or None.

    Cheap is soon, with little capacity idle meanwhile and little of worth stopped. `spare` is
    how many workers each model may lose; models not named lose none.
    """
    plans = [
        plan
        for room in rooms
        if (plan := _on_card(room, residents, share=share, spare=spare)) is not None
    ]
    return min(plans, default=None, key=_price)


def _on_card(
    room: Room, residents: Sequence[Resident], *, share: float, spare: Mapping[str, int]
) -> DrainPlan | None:
    left = dict(spare)
    free, leaving = room.free, []
    here = (each for each in residents if each.card == room.card)
    for each in sorted(here, key=lambda each: (each.left_s, each.worth, each.name)):
        if free + EPS >= share:
            break
        if left.get(each.model, 0) > 0:
            left[each.model] -= 1
            leaving.append(each)
            free += each.share
    if free + EPS < share or not leaving:
        return None
    wait_s = max(each.left_s for each in leaving)
    return DrainPlan(card=room.card, leaving=tuple(leaving), wait_s=wait_s)


def _price(plan: DrainPlan) -> tuple[float, float, str]:
    wasted = sum(each.share * (plan.wait_s - each.left_s) + each.worth for each in plan.leaving)
    return plan.wait_s + wasted, plan.wait_s, plan.card
