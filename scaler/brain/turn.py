"""One look, gathered: what is known of each model that could be read, and what it may insist on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scaler.brain.arbiter import floors_too_high, guaranteed
from scaler.brain.demand import Habit, look
from scaler.brain.draft import Draft
from scaler.brain.elastic import Bid, Crew, bid, kept
from scaler.brain.placement import EPS
from scaler.brain.plan import Memory
from scaler.brain.policy import Policy
from scaler.brain.views import Demand, Observation, Worker

TURN_S = 900.0
"""How long a model's last worker is its own although another has none."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """All of one decision. The draft is the only part that changes."""

    now: float
    policies: Mapping[str, Policy]
    demands: Mapping[str, Demand]
    """Of the models that could be read; the others are held."""
    habits: Mapping[str, Habit]
    draft: Draft
    rights: Mapping[str, int]
    """Workers each model may insist on, so that others leave for it."""
    too_high: str | None
    unserved_since: Mapping[str, float]
    aside: Mapping[str, Worker]
    """Workers that wait for an announced call, by model. They are not on the draft."""
    cramped: frozenset[str]

    def crew(self, model: str) -> Crew:
        return self.draft.crew(self.policies[model])

    def waiting(self, model: str) -> int:
        return len(self.demands[model].waiting) if model in self.demands else 0

    def present(self, model: str) -> Crew:
        """Everybody of a model, who was set aside as well."""
        crew, aside = self.draft.present(model), self.aside.get(model)
        if aside is None:
            return crew
        if aside.state == "loading":
            return replace(crew, loading=(*crew.loading, aside.left_s))
        return replace(crew, idle=tuple(sorted((*crew.idle, aside.for_s))))

    def missing(self, model: str) -> int:
        """Workers it has a right to and does not have."""
        return self.rights.get(model, 0) - self.draft.size(model)

    def spare(self, *, but: str) -> dict[str, int]:
        """Workers each other model may lose to this one; an unread model loses none.

        What a model has a right to it keeps, unless the other has gone without any for a whole
        turn: with more models than cards, they take turns.
        """
        since = self.unserved_since.get(but)
        its_turn = since is not None and self.now - since >= TURN_S
        return {
            model: self.draft.size(model)
            - max(policy.min_workers, 0 if its_turn else self.rights.get(model, 0))
            for model, policy in self.policies.items()
            if model != but and model in self.demands
        }

    def free(self) -> float:
        """Cards that no worker holds whom nobody may take."""
        minimum = sum(
            kept(policy, crew=self.draft.present(model)) * policy.share
            for model, policy in self.policies.items()
        )
        return max(0.0, self.draft.unheld() - minimum)

    def bids(self) -> dict[str, Bid]:
        free = self.free()
        return {
            model: bid(
                self.policies[model],
                crew=self.crew(model),
                demand=demand,
                habit=self.habits[model],
                room=int(free / self.policies[model].share + EPS),
            )
            for model, demand in self.demands.items()
        }


def gather(
    seen: Observation,
    workers: Sequence[Worker],
    *,
    policies: Mapping[str, Policy],
    aside: Mapping[str, Worker],
    memory: Memory,
    now: float,
) -> Turn:
    """What one look at the pool says; `workers` are those that were not set aside."""
    demands = {
        model: demand for model in policies if isinstance(demand := seen.demands.get(model), Demand)
    }
    draft = Draft(
        cards=seen.cards,
        workers=[each if each.model in demands else _untouched(each) for each in workers],
        policies=policies,
        promises=memory.promises,
    )
    too_high = floors_too_high(list(policies.values()), cards=len(seen.cards))
    busy = dict.fromkeys(policies, 0)
    for worker in workers:
        # A draining worker's job is one, too.
        if worker.model in busy and (worker.state == "busy" or worker.state == "draining"):
            busy[worker.model] += 1
    habits = {
        model: look(
            memory.habits.get(model, Habit()),
            now=now,
            active=busy[model] + len(demand.waiting),
            arrived=demand.arrived,
        )
        for model, demand in demands.items()
    }
    return Turn(
        now=now,
        policies=policies,
        demands=demands,
        habits=habits,
        draft=draft,
        rights={
            model: min(
                _right(policies[model], held=draft.crew(policies[model]).held, demand=demand),
                # Floors nobody can meet are none; a turn each model still has.
                policies[model].max_workers if too_high is None else 1,
            )
            for model, demand in demands.items()
        },
        too_high=too_high,
        unserved_since=_unserved(demands, draft=draft, memory=memory, now=now),
        aside=aside,
        cramped=seen.cramped,
    )


def _untouched(worker: Worker) -> Worker:
    """As the brain takes a worker of a model it knows nothing of: at work."""
    return replace(worker, state="busy") if worker.state == "idle" else worker


def _unserved(
    demands: Mapping[str, Demand], *, draft: Draft, memory: Memory, now: float
) -> dict[str, float]:
    return {
        # A clock that was set back begins the turn again.
        model: min(now, memory.unserved_since.get(model, now))
        for model, demand in demands.items()
        if demand.waiting and not draft.size(model)
    }


def _right(policy: Policy, *, held: int, demand: Demand) -> int:
    return guaranteed(
        policy.floor, have=held, waiting=len(demand.waiting), oldest_s=demand.oldest_s
    )
