"""The door: one look at the pool, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scaler.brain import moves, reasons, warmth
from scaler.brain.arbiter import arbitrate
from scaler.brain.plan import Memory, Plan
from scaler.brain.policy import Policy
from scaler.brain.turn import Turn, gather
from scaler.brain.views import Observation, Unread


def decide(
    seen: Observation, *, policies: Sequence[Policy], memory: Memory, now: float
) -> tuple[Plan, Memory]:
    """What to do now (`now` in seconds, of any epoch), and what to remember for the next look.

    Total: what cannot be read is held as it was, and the reason says so. The order of cards,
    workers and models does not matter.
    """
    by_name = {each.model: each for each in sorted(policies, key=lambda each: each.model)}
    if isinstance(seen.workers, Unread):
        return reasons.nothing_read(seen.workers, policies=by_name, memory=memory), memory
    aside = warmth.set_aside(seen, seen.workers, policies=by_name, memory=memory)
    others = [each for each in seen.workers if each not in aside.values()]
    turn = gather(seen, others, policies=by_name, aside=aside, memory=memory, now=now)
    before = {model: turn.present(model) for model in by_name}
    last_down, lacking = _order(turn, memory=memory)
    warm = warmth.settle(turn, seen.workers, memory=memory, lacking=lacking)
    desired = {
        model: turn.draft.size(model)
        if model in turn.demands
        else memory.desired.get(model, before[model].size)
        for model in by_name
    }
    unread = {model: why.why for model, why in seen.demands.items() if isinstance(why, Unread)}
    plan = Plan(
        decisions=reasons.explain(
            turn,
            before=before,
            desired=desired,
            unread=unread,
            memory=replace(memory, last_down=last_down, warm=warm),
        ),
        starts=tuple(turn.draft.starts),
        stops=tuple(turn.draft.stops),
        drains=tuple(turn.draft.drains),
        warnings=() if turn.too_high is None else (turn.too_high,),
    )
    return plan, Memory(
        habits={**memory.habits, **turn.habits},
        promises=tuple(turn.draft.promises),
        last_down=last_down,
        desired=desired,
        unserved_since=turn.unserved_since,
        warm=warm,
    )


def _order(turn: Turn, *, memory: Memory) -> tuple[dict[str, float], bool]:
    """Write all orders on the draft; when each model last gave up an idle worker, and whether
    anybody lacks a worker that was awarded."""
    moves.settle_promises(turn)
    bids = turn.bids()
    award = arbitrate(list(bids.values()), free=turn.free(), floors=turn.rights)
    last_down = moves.send_idle_away(turn, award, last_down=memory.last_down)
    award = moves.give_room(turn, award)
    moves.bring_in(turn, award, bids)
    lacking = any(award.desired[model] > turn.draft.size(model) for model in turn.demands)
    return last_down, lacking or any(turn.missing(model) > 0 for model in turn.demands)
