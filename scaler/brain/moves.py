"""The orders of one look: idle workers go, new ones come, cards are kept for whoever waits.

Each function writes on the turn's draft. Nobody is killed: a busy worker leaves at the end of
its job, and what it leaves is promised to the model it leaves for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scaler.brain.arbiter import Award
from scaler.brain.elastic import Bid, cold_price
from scaler.brain.guard import may_go
from scaler.brain.placement import DrainPlan, Resident, drain_plan
from scaler.brain.turn import Turn


def settle_promises(turn: Turn) -> None:
    """Start who was promised room that is free now; forget promises nobody waits for."""
    draft = turn.draft
    for promise in list(draft.promises):
        known = promise.model in turn.policies
        if known and promise.model not in turn.demands:
            continue
        if not known or not turn.waiting(promise.model):
            draft.promises.remove(promise)
        elif not draft.redeem(promise) and not draft.clearing(promise.card):
            # Somebody came in between: nothing leaves there any more.
            draft.promises.remove(promise)


def send_idle_away(turn: Turn, award: Award, *, last_down: Mapping[str, float]) -> dict[str, float]:
    """Stop idle workers above the award, the longest idle first; when each model last did."""
    times = dict(last_down)
    wanted = bool(award.short) or any(
        award.desired[model] > turn.draft.size(model) for model in turn.demands
    )
    for model in turn.demands:
        idle = [each for each in turn.draft.workers(model) if each.state == "idle"]
        going = may_go(
            lane=turn.policies[model].lane,
            over=turn.draft.size(model) - award.desired[model],
            idle=len(idle),
            wanted=wanted,
            last_down=times.get(model),
            now=turn.now,
        )
        for worker in sorted(idle, key=lambda each: (-each.for_s, each.name))[:going]:
            turn.draft.send_away(worker.name)
            times[model] = turn.now
    return times


def give_room(turn: Turn, award: Award) -> Award:
    """Let one worker go for each model with jobs and none of its own whose ordered worker found
    no room, such as memory, although cards are free: as for a card, an idle one first, else who
    ends its job soonest. Gives the award without those, so that nobody comes in their place."""
    desired = dict(award.desired)
    # Whoever goes anyway goes before.
    cramped = () if turn.draft.stops or turn.aside else sorted(turn.cramped & turn.demands.keys())
    for model in cramped:
        spare = turn.spare(but=model)
        able = [each for each in _residents(turn) if spare.get(each.model, 0) > 0]
        if turn.missing(model) > 0 and not turn.draft.size(model) and able:
            soonest = min(able, key=lambda each: (each.left_s, each.worth, each.name))
            turn.draft.send_away(soonest.name)
            desired[soonest.model] = turn.draft.size(soonest.model)
    return replace(award, desired=desired)


def bring_in(turn: Turn, award: Award, bids: Mapping[str, Bid]) -> None:
    """Start what was awarded: rights first, then by value.

    Between the two, cards are kept for the rights that found none, so that nobody is started
    where somebody must leave.
    """
    coming = [model for model in turn.demands if award.desired[model] > turn.draft.size(model)]
    coming.sort(key=lambda model: (-_next_value(turn, bids[model]), model))
    for model in coming:
        _bring(turn, model, up_to=min(award.desired[model], turn.rights[model]))
    _promise_rights(turn)
    for model in coming:
        _bring(turn, model, up_to=award.desired[model])


def _bring(turn: Turn, model: str, *, up_to: int) -> None:
    while up_to > turn.draft.size(model):
        if not turn.draft.start(model) and not _make_room(turn, model):
            break


def _promise_rights(turn: Turn) -> None:
    """Keep a card for each model below its right that found none.

    Who has no worker at all comes first, then who waited longest.
    """
    behind = [
        (turn.draft.size(model) > 0, -turn.demands[model].oldest_s, model)
        for model in turn.demands
        if turn.missing(model) > 0
    ]
    for _, _, model in sorted(behind):
        while turn.missing(model) > 0:
            plan = _plan(turn, model)
            if plan is None:
                break
            turn.draft.clear(plan, owner=turn.policies[model])


def _next_value(turn: Turn, bid: Bid) -> float:
    given = turn.draft.size(bid.model) - bid.held
    return bid.values[given] if 0 <= given < len(bid.values) else 0.0


def _make_room(turn: Turn, model: str) -> bool:
    """Stop idle workers that nobody waits for, on the one card where that is cheapest."""
    if not turn.waiting(model):
        return False
    idle = [each for each in _residents(turn) if each.idle and not turn.waiting(each.model)]
    plan = drain_plan(
        turn.draft.rooms(),
        idle,
        share=turn.policies[model].share,
        spare=turn.spare(but=model),
    )
    if plan is not None:
        turn.draft.clear(plan, owner=turn.policies[model])
    return plan is not None


def _plan(turn: Turn, model: str) -> DrainPlan | None:
    kept = {each.card for each in turn.draft.promises}
    return drain_plan(
        [room for room in turn.draft.rooms() if room.card not in kept],
        _residents(turn),
        share=turn.policies[model].share,
        spare=turn.spare(but=model),
    )


def _residents(turn: Turn) -> list[Resident]:
    worth = {
        model: cold_price(turn.policies[model], burst=turn.habits[model].burst)
        for model in turn.demands
    }
    return turn.draft.residents(worth)
