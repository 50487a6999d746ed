"""Why a model has the workers it has, in words an admin understands."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.brain.demand import Habit, Tier, tier
from scaler.brain.elastic import Crew, break_even_s, keepalive_s
from scaler.brain.guard import WINDOW_S, window_left_s
from scaler.brain.plan import Decision, Memory, Plan
from scaler.brain.policy import Policy
from scaler.brain.turn import Turn
from scaler.brain.views import Hint, Unread
from scaler.brain.warmth import WARM_S, is_due


def nothing_read(why: Unread, *, policies: Mapping[str, Policy], memory: Memory) -> Plan:
    """The plan while the workers cannot be read: nothing is ordered."""
    return Plan(
        decisions=tuple(
            _held(policy, why=why.why, habit=memory.habits.get(model, Habit()), memory=memory)
            for model, policy in policies.items()
        ),
        warnings=(f"the workers could not be read: {why.why}; nothing is started or stopped",),
    )


def _held(policy: Policy, *, why: str, habit: Habit, memory: Memory, actual: int = 0) -> Decision:
    desired = memory.desired.get(policy.model, actual)
    return Decision(
        model=policy.model,
        desired=desired,
        actual=actual,
        reason=f"held at {desired}: {why}",
        tier=_tier(policy, habit),
    )


def explain(
    turn: Turn,
    *,
    before: Mapping[str, Crew],
    desired: Mapping[str, int],
    unread: Mapping[str, str],
    memory: Memory,
) -> tuple[Decision, ...]:
    """A decision for each model, in the order of their names. Of the memory, `last_down` and
    `warm` count what this look ordered."""
    decisions = []
    for model, policy in turn.policies.items():
        if model not in turn.demands:
            why = unread.get(model, "nothing was said about it")
            habit = memory.habits.get(model, Habit())
            actual = before[model].size
            decisions.append(_held(policy, why=why, habit=habit, memory=memory, actual=actual))
            continue
        decisions.append(
            Decision(
                model=model,
                desired=desired[model],
                actual=before[model].size,
                reason=_announced(turn, policy, warm=memory.warm, desired=desired[model])
                or _reason(turn, policy, crew=before[model], desired=desired[model]),
                tier=_tier(policy, turn.habits[model]),
                zero_in_s=_zero_in_s(turn, policy, memory=memory),
            )
        )
    return tuple(decisions)


def _tier(policy: Policy, habit: Habit) -> Tier:
    return tier(habit, break_even_s=break_even_s(policy, burst=habit.burst))


def _announced(turn: Turn, policy: Policy, *, warm: Mapping[str, float], desired: int) -> str:
    """What an announced call has to do with it, or ""."""
    model = policy.model
    due = is_due(policy, turn.demands[model])
    if model in warm:
        left_s = WARM_S - (turn.now - warm[model])
        return (
            f"warmed: {_who_announced(turn.demands[model].hint)} it"
            if due
            else f"warmed: whoever announced a call has ended; stays {spell(left_s)} for it"
        )
    if model in turn.aside and due:
        return "warmed for an announced call; leaves, somebody else needs the room"
    if model in turn.aside:
        return "warmed for an announced call that has not come; leaves"
    if due and not desired:
        return f"{_who_announced(turn.demands[model].hint)} a call; no card is free for that"
    return ""


def _who_announced(hint: Hint | None) -> str:
    counts = {"running": hint.running, "waiting": hint.queued} if hint else {}
    told = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{told} {'job' if sum(counts.values()) == 1 else 'jobs'} announced"


def _reason(turn: Turn, policy: Policy, *, crew: Crew, desired: int) -> str:
    if turn.waiting(policy.model):
        return _while_jobs_wait(turn, policy, crew=crew, desired=desired)
    if desired < crew.size:
        return f"nothing waits; {crew.size - desired} idle longer than is worth keeping"
    if desired > crew.size:
        return f"at least {policy.min_workers} by the admin's setting"
    if crew.idle:
        return _kept(turn, policy, crew=crew)
    if crew.held:
        return f"{crew.held} at work or loading, nothing waits"
    return "nothing waits, no worker needed"


def _kept(turn: Turn, policy: Policy, *, crew: Crew) -> str:
    if crew.size <= policy.min_workers:
        return f"nothing waits; {policy.min_workers} stay by the admin's setting"
    habit = turn.habits[policy.model]
    stay = keepalive_s(policy, gaps=habit.gaps, burst=habit.burst)
    return f"nothing waits; an idle worker stays {spell(stay)}, as long as calls often pause"


def _while_jobs_wait(turn: Turn, policy: Policy, *, crew: Crew, desired: int) -> str:
    model = policy.model
    jobs, oldest = turn.waiting(model), turn.demands[model].oldest_s
    told = f"{jobs} {'job waits' if jobs == 1 else 'jobs wait'}, the oldest {spell(oldest)}"
    for promise in turn.draft.promised(model):
        wait = spell(turn.draft.wait_s(promise.card))
        return f"{told}; {promise.card} is kept for it, free in about {wait}"
    if desired > crew.size:
        right = turn.rights[model]
        because = f", its right is {right}" if right > max(1, crew.size) else ""
        return f"{told}: from {crew.size} to {desired} workers{because}"
    if desired >= policy.max_workers:
        return f"{told}; the admin allows {policy.max_workers} workers"
    if desired < crew.size:
        return f"{told}; gives up {crew.size - desired} for a model that needs the card more"
    if turn.draft.unheld() < policy.share:
        return f"{told}; no card is free, and others would lose more than it gains"
    return f"{told}; a further worker would start too late to help"


def _zero_in_s(turn: Turn, policy: Policy, *, memory: Memory) -> float | None:
    crew = turn.crew(policy.model)
    if policy.model in memory.warm:
        announced = is_due(policy, turn.demands[policy.model])
        return None if announced else WARM_S - (turn.now - memory.warm[policy.model])
    if turn.waiting(policy.model) or crew.held or policy.min_workers:
        return None
    if not crew.idle:
        return 0.0
    habit = turn.habits[policy.model]
    stay = keepalive_s(policy, gaps=habit.gaps, burst=habit.burst)
    window_s = WINDOW_S[policy.lane]
    # One at a time, the longest idle first, a window apart.
    leaves_s = (
        window_left_s(lane=policy.lane, last_down=memory.last_down.get(policy.model), now=turn.now)
        - window_s
    )
    for number, idle_s in enumerate(sorted(crew.idle, reverse=True)):
        above_most = number < len(crew.idle) - policy.max_workers
        leaves_s = max(leaves_s + window_s, 0.0 if above_most else stay - idle_s)
    return leaves_s


def spell(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
