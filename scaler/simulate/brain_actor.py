"""The scaler's brain on a simulated pool: it sees what the real one sees, and acts like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from scaler.brain.decision import decide
from scaler.brain.plan import Memory, Plan
from scaler.brain.policy import Policy
from scaler.brain.views import Demand, Observation
from scaler.brain.views import Worker as Seen
from scaler.simulate.world import Worker, World

MOST_SEEN = 120
OVERDUE = 0.15
"""A job past its estimate is taken to need this part of it still."""


class BrainActor:
    """Looks every `every_s` seconds and whenever jobs arrive or workers fall free."""

    def __init__(self, policies: Sequence[Policy], *, every_s: float = 10.0) -> None:
        self.every_s = every_s
        self.memory = Memory()
        self.last: Plan | None = None
        self._policies = {each.model: each for each in policies}

    def begin(self, world: World) -> None:
        """It starts with nothing and learns."""

    def beat(self, world: World) -> None:
        self._act(world, {})

    def wake(self, world: World, *, arrived: Mapping[str, int]) -> None:
        self._act(world, arrived)

    def _act(self, world: World, arrived: Mapping[str, int]) -> None:
        self.last, self.memory = decide(
            self.observe(world, arrived=arrived),
            policies=list(self._policies.values()),
            memory=self.memory,
            now=world.now,
        )
        carry_out(self.last, world)

    def observe(self, world: World, *, arrived: Mapping[str, int]) -> Observation:
        return Observation(
            cards=tuple(world.free),
            workers=tuple(
                self._seen(each, world.now) for crew in world.workers.values() for each in crew
            ),
            demands={model: _demand(world, model, arrived.get(model, 0)) for model in world.kinds},
        )

    def _seen(self, worker: Worker, now: float) -> Seen:
        for_s = now - worker.since_s
        left_s = 0.0
        if worker.job is not None:
            estimate_s = worker.job.call.estimate_s
            left_s = max(estimate_s - for_s, OVERDUE * estimate_s)
        elif worker.state == "loading":
            left_s = max(1.0, self._policies[worker.model].cold_s - for_s)
        return Seen(
            name=str(worker.number),
            model=worker.model,
            card=worker.card,
            share=worker.share,
            state="draining" if worker.draining else worker.state,
            for_s=for_s,
            left_s=left_s,
        )


def _demand(world: World, model: str, arrived: int) -> Demand:
    queue = world.queues[model]
    return Demand(
        waiting=tuple(job.call.estimate_s for job in islice(queue, MOST_SEEN)),
        oldest_s=world.now - queue[0].arrived_s if queue else 0.0,
        arrived=arrived,
    )


def carry_out(plan: Plan, world: World) -> None:
    """Do what the plan says; leaving first, so that the room is there."""
    by_name = {str(each.number): each for crew in world.workers.values() for each in crew}
    for stop in plan.stops:
        world.stop(by_name[stop.worker])
    for drain in plan.drains:
        world.drain(by_name[drain.worker])
    for start in plan.starts:
        world.start(start.model, card=start.card)
