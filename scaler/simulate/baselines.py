"""What people run today: fixed workers, KEDA with HPA as delivered, and KEDA tuned by hand.

Coded from their documented behaviour. As delivered: the Redis scaler counts the list alone and
does not see a message that a worker holds; 5 messages a replica; polled every 30 s; to zero
after 300 s; HPA beats every 15 s, with 300 s of stabilisation downwards; the newest pod goes
first, and it has 30 s to leave. A killed job returns after the visibility timeout.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.simulate.world import Worker, World

GRACE_S = 30.0
VISIBILITY_S = 3600.0
TOLERANCE = 0.1


class Static:
    """The same workers all day, the largest shares placed first."""

    every_s = 3600.0

    def __init__(self, workers: Mapping[str, int]) -> None:
        self._workers = workers

    def begin(self, world: World) -> None:
        for model in sorted(self._workers, key=lambda model: -world.kinds[model].share):
            for _ in range(self._workers[model]):
                if world.start(model) is None:
                    raise ValueError(f"the fixed workers of {model} do not fit on the cards")

    def beat(self, world: World) -> None:
        """Nothing changes."""

    def wake(self, world: World, *, arrived: Mapping[str, int]) -> None:
        """Nothing changes."""


@dataclass(frozen=True, kw_only=True)
class KedaSettings:
    """One ScaledObject for each model. `careful`: counts what is in flight, takes one replica a
    minute, the idle ones first, and lets a job end."""

    most: Mapping[str, int]
    least: Mapping[str, int] = field(default_factory=dict)
    jobs_a_replica: int = 5
    cooldown_s: float = 300.0
    stabilisation_s: float = 300.0
    careful: bool = False


@dataclass
class _Scaled:
    want: int = 0
    active: bool = False
    active_at_s: float = -math.inf
    down_at_s: float = -math.inf
    wishes: deque[tuple[float, int]] = field(default_factory=deque)


class Keda:
    """KEDA from zero to one and back, HPA in between; pods that do not fit are pending."""

    every_s = 15.0

    def __init__(self, settings: KedaSettings) -> None:
        self._settings = settings
        self._scaled = {model: _Scaled() for model in settings.most}
        self._pending: deque[str] = deque()
        self._beats = 0

    def begin(self, world: World) -> None:
        """All at their minimum with the first beat."""

    def wake(self, world: World, *, arrived: Mapping[str, int]) -> None:
        """It only polls."""

    def beat(self, world: World) -> None:
        self._beats += 1
        for model, scaled in self._scaled.items():
            scaled.want = self._wish(world, model, scaled)
        for model, scaled in self._scaled.items():
            self._scale_in(world, model, scaled.want)
        self._place(world)

    def _wish(self, world: World, model: str, scaled: _Scaled) -> int:
        jobs = len(world.queues[model])
        if self._settings.careful:
            jobs += sum(each.state == "busy" for each in world.workers[model])
        if self._beats % 2 == 0:
            self._poll(world.now, scaled, jobs=jobs)
        if not scaled.active:
            scaled.wishes.clear()
            return self._settings.least.get(model, 0)
        return self._hpa(world.now, model, scaled, jobs=jobs)

    def _poll(self, now: float, scaled: _Scaled, *, jobs: int) -> None:
        if jobs:
            scaled.active, scaled.active_at_s = True, now
        elif now - scaled.active_at_s >= self._settings.cooldown_s:
            scaled.active = False

    def _hpa(self, now: float, model: str, scaled: _Scaled, *, jobs: int) -> int:
        have = max(1, scaled.want)
        wish = have
        if abs(jobs / self._settings.jobs_a_replica / have - 1) > TOLERANCE:
            wish = math.ceil(jobs / self._settings.jobs_a_replica)
        wish = min(max(wish, 1), self._settings.most[model], max(2 * have, have + 4))
        scaled.wishes.append((now, wish))
        while scaled.wishes[0][0] < now - self._settings.stabilisation_s:
            scaled.wishes.popleft()
        if wish >= have:
            return wish
        wish = min(have, max(each for _, each in scaled.wishes))
        if self._settings.careful and wish < have:
            if now - scaled.down_at_s < 60:
                return have
            scaled.down_at_s = now
            return have - 1
        return wish

    def _scale_in(self, world: World, model: str, want: int) -> None:
        staying = [each for each in world.workers[model] if not each.draining]
        if self._settings.careful:
            staying.sort(key=lambda each: (each.state == "busy", -each.born_s))
        else:
            staying.sort(key=lambda each: (each.state != "loading", -each.born_s))
        for worker in staying[: max(0, len(staying) - want)]:
            world.drain(worker)
            if not self._settings.careful and not worker.gone:
                world.at(world.now + GRACE_S, lambda worker=worker: _sigkill(world, worker))  # type: ignore[misc]

    def _place(self, world: World) -> None:
        """Pending pods by age; one that does not fit is overtaken by those that do."""
        pending = Counter(self._pending)
        for model, scaled in self._scaled.items():
            missing = scaled.want - _staying(world, model) - pending[model]
            self._pending.extend([model] * max(0, missing))
        for model in list(self._pending):
            if self._scaled[model].want <= _staying(world, model) or world.start(model):
                self._pending.remove(model)


def _staying(world: World, model: str) -> int:
    return sum(not each.draining for each in world.workers[model])


def _sigkill(world: World, worker: Worker) -> None:
    if worker.job is not None and not worker.gone:
        world.kill(worker, back_after_s=VISIBILITY_S)


def static() -> Static:
    """Workers for a mean day of the made-up workload on eight cards."""
    return Static({"rfdiffusion": 4, "openfold3": 1, "boltz2": 2, "protenix": 3, "embedding": 2})


def keda_defaults() -> Keda:
    """As the documentation has it; as many replicas as the cards could hold."""
    most = {"rfdiffusion": 8, "openfold3": 8, "boltz2": 16, "protenix": 16, "embedding": 8}
    return Keda(KedaSettings(most=most))


def keda_tuned() -> Keda:
    """By hand for this workload: in-flight counted, a job a replica, a cap for each model."""
    return Keda(
        KedaSettings(
            most={"rfdiffusion": 5, "openfold3": 3, "boltz2": 6, "protenix": 6, "embedding": 4},
            least={"embedding": 1},
            jobs_a_replica=1,
            careful=True,
        )
    )
