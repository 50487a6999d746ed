"""Workers that wait for an announced call, on cards that nobody else wants.

Everything else is decided as if they were not there; they keep what room is left after that.
So an announcement never costs another model anything, however wrong it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scaler.brain.plan import Memory, Stop
from scaler.brain.policy import Policy
from scaler.brain.turn import Turn
from scaler.brain.views import Demand, Observation, Worker

WARM_S = 120.0
"""How long a warmed worker stays after the last job that announced its call has ended."""
EARLY_S = 60.0
EARLY_STARTS = 2.0
"""Begun so many cold starts before the call is expected, and a minute before at least."""


def is_due(policy: Policy, demand: Demand) -> bool:
    """Whether an announced call comes so soon that a cold start had better begin."""
    early_s = max(EARLY_S, EARLY_STARTS * policy.cold_s)
    return (
        demand.hint is not None
        and demand.hint.in_s <= early_s
        and not demand.waiting
        and policy.max_workers > 0
        and policy.lane != "bulk"  # there each job has a worker of its own
    )


def set_aside(
    seen: Observation,
    workers: Sequence[Worker],
    *,
    policies: Mapping[str, Policy],
    memory: Memory,
) -> dict[str, Worker]:
    """Of each model that was warmed, the worker that is there for nothing else yet.

    Its first job, or an admin's minimum, makes it a worker like any other.
    """
    found = {}
    for model in memory.warm:
        policy, demand = policies.get(model), seen.demands.get(model)
        crew = [each for each in workers if each.model == model and each.state != "draining"]
        if policy is None or policy.min_workers or not policy.max_workers:
            continue
        if not isinstance(demand, Demand) or demand.waiting or demand.arrived:
            continue
        if crew and all(each.state in ("idle", "loading") for each in crew):
            found[model] = min(crew, key=lambda each: (each.for_s, each.name))
    return found


def settle(
    turn: Turn, workers: Sequence[Worker], *, memory: Memory, lacking: bool
) -> dict[str, float]:
    """Let those who were set aside stay where there is room, and warm what is announced, unless
    somebody else is `lacking` a worker. Gives what `Memory.warm` is next."""
    # What cannot be read is left as it is.
    warm = {model: at for model, at in memory.warm.items() if model not in turn.demands}
    for model in sorted(turn.demands, key=lambda model: _order(turn, model)):
        due = is_due(turn.policies[model], turn.demands[model])
        heard = turn.now if due else memory.warm.get(model, -WARM_S)
        # One is enough, however many announce it. A clock that was set back ends the wait.
        wanted = 0 <= turn.now - heard < WARM_S and not turn.draft.size(model) and not turn.cramped
        worker = turn.aside.get(model) or (_just_stopped(turn, model, workers) if due else None)
        if worker is not None and wanted and turn.draft.keep(worker):
            warm[model] = heard
        elif model in turn.aside:
            turn.draft.stops.append(Stop(worker=turn.aside[model].name))
        elif due and wanted and not lacking and turn.draft.start(model):
            warm[model] = heard
    return warm


def _order(turn: Turn, model: str) -> tuple[bool, float, str]:
    """Whose call comes first."""
    hint = turn.demands[model].hint
    return hint is None, hint.in_s if hint else 0.0, model


def _just_stopped(turn: Turn, model: str, workers: Sequence[Worker]) -> Worker | None:
    """An idle worker that would leave now, just before a call that is announced."""
    stopped = {each.worker for each in turn.draft.stops}
    mine = (each for each in workers if each.model == model and each.name in stopped)
    return min(mine, key=lambda each: (each.for_s, each.name), default=None)
