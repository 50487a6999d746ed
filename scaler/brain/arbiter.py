"""Who gets the cards there are: rights first, then value by value."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scaler.brain.elastic import Bid
from scaler.brain.placement import EPS
from scaler.brain.policy import Floor, Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class Award:
    """Workers each model should have, and what of its right finds no card yet."""

    desired: Mapping[str, int]
    short: Mapping[str, int]


def guaranteed(floor: Floor, *, have: int, waiting: int, oldest_s: float) -> int:
    """Workers a model may insist on now."""
    if not waiting or oldest_s < floor.after_s:
        return 0
    grown = floor.workers
    if floor.step_s >= 1e-3:
        grown = min(grown, int((oldest_s - floor.after_s) / floor.step_s) + 1)
    return min(grown, have + waiting)


def arbitrate(bids: Sequence[Bid], *, free: float, floors: Mapping[str, int]) -> Award:
    """Give `free` cards (those no held worker is on) to the bids.

    Rights first, the model furthest below its own first; then the highest value per card.
    What a right finds no room for is `short`, and does not keep others from other cards.
    Held workers stay, also where nothing is free.
    """
    bids = sorted(bids, key=lambda bid: bid.model)
    desired = {bid.model: bid.held for bid in bids}
    free, short = _rights(bids, desired=desired, free=free, floors=floors)
    heap = [
        (-bid.values[given], number, given)
        for number, bid in enumerate(bids)
        if (given := desired[bid.model] - bid.held) < len(bid.values)
    ]
    heapq.heapify(heap)
    while heap and free > EPS:
        value, number, given = heapq.heappop(heap)
        bid = bids[number]
        if value >= 0:
            break
        if bid.share > free + EPS:
            continue
        desired[bid.model] += 1
        free -= bid.share
        if given + 1 < len(bid.values):
            heapq.heappush(heap, (-bid.values[given + 1], number, given + 1))
    return Award(desired=desired, short=short)


def _rights(
    bids: Sequence[Bid], *, desired: dict[str, int], free: float, floors: Mapping[str, int]
) -> tuple[float, dict[str, int]]:
    short: dict[str, int] = {}
    heap = [
        (bid.held / floors[bid.model], -bid.share, number)
        for number, bid in enumerate(bids)
        if floors.get(bid.model, 0) > bid.held
    ]
    heapq.heapify(heap)
    while heap:
        _, _, number = heapq.heappop(heap)
        bid = bids[number]
        right = floors[bid.model]
        if bid.share > free + EPS:
            short[bid.model] = right - desired[bid.model]
            continue
        desired[bid.model] += 1
        free -= bid.share
        if desired[bid.model] < right:
            heapq.heappush(heap, (desired[bid.model] / right, -bid.share, number))
    return free, short


def floors_too_high(policies: Sequence[Policy], *, cards: int) -> str | None:
    """In words, when the floors and minimums can never all be met; else None.

    A floor of one is a right to a turn, not to a card at all times, and does not count. Halves,
    quarters and eighths pack without loss; whole cards need one each.
    """
    most = {
        policy: max(policy.floor.workers if policy.floor.workers > 1 else 0, policy.min_workers)
        for policy in policies
    }
    whole = sum(count for policy, count in most.items() if policy.share > 0.5)
    parts = sum(count * policy.share for policy, count in most.items() if policy.share <= 0.5)
    need = whole + math.ceil(parts - EPS)
    if need <= cards:
        return None
    named = ", ".join(f"{policy.model} {most[policy]}" for policy in policies if most[policy])
    return (
        f"the floors ask for {need} cards and there are {cards} ({named}); "
        "no worker is asked to leave for a floor until that is settled"
    )
