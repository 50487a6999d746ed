"""Scale-in of one Deployment, so that nobody with a job is among those who go.

Who is to leave is first marked on its pod, then its worker takes no more jobs, and when it has
none its pod goes. The mark is all that is remembered: another scaler goes on from there. A
ReplicaSet takes pods without a node first, then those that are not ready, then those of the
lowest deletion cost. So whoever goes gets a cost, just before, and nobody else has one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from scaler.targets.base import Wanted, Worker
from scaler.targets.kubernetes import pods
from scaler.targets.kubernetes.cluster import DELETION_COST, LEAVES, Cluster
from scaler.targets.kubernetes.door import Door
from scaler.targets.kubernetes.objects import Object, annotation
from scaler.targets.kubernetes.sight import Sight

GOES = "-1000"
NOT_READY = ("pending", "loading")


class Consumers(Protocol):
    """Workers, by the names of their pods."""

    def stop(self, pod: str) -> bool:
        """Let it take no more jobs; whether it has none now. Asking again changes nothing."""

    def resume(self, pod: str) -> bool:
        """Let it take jobs again; whether it said that it does."""


@dataclass(frozen=True, kw_only=True)
class Exits:
    """`going`: pods to give up now. `later`: how many others go when their job has ended."""

    going: tuple[str, ...] = ()
    later: int = 0


class Leaving:
    """Who leaves one Deployment of `replicas`, so that `want` workers stay."""

    def __init__(
        self,
        door: Door,
        sight: Sight,
        revision: str,
        *,
        replicas: int,
        want: int,
        consumers: Consumers,
    ) -> None:
        self._door, self._sight, self._consumers = door, sight, consumers
        self._crew = {each.name: each for each in sight.crew(revision)}
        self._replicas = replicas
        self._unborn = max(0, replicas - len(self._crew))
        self._want = want
        self._told = [each.name for each in sight.leaving(revision)]

    def choose(self, wanted: Wanted) -> Exits:
        """May be fewer than must go: a victim that took a job in the meantime stays."""
        self._told += [*self._among(wanted.drains)][: max(0, self._over)]
        told = list(self._told)
        fresh = sorted((e for e in self._not_ready() if e.name not in told), key=_youth)
        going = [each.name for each in fresh[: max(0, self._over)]]
        # A ReplicaSet would take one that loads before any that is ready.
        only_not_ready = len(fresh) > len(going)
        going += [name for name in told if self._goes(name, only_not_ready=only_not_ready)]
        gone = len(set(going) - set(told))
        for name in self._among(wanted.victims):
            if self._over <= gone:
                break
            if name not in going and self._gives_up(name):
                going.append(name)
                gone += 1
        later = [name for name in self._told if name not in going]
        return Exits(going=tuple(going), later=len(later))

    @property
    def _over(self) -> int:
        """Workers too many, beside those that were told to leave."""
        return self._replicas - self._unborn - self._want - len(self._told)

    def _among(self, names: Sequence[str]) -> Iterator[str]:
        return (name for name in names if name in self._crew and name not in self._told)

    def _not_ready(self) -> list[Worker]:
        return [each for each in self._crew.values() if self._phase(each.name) in NOT_READY]

    def _phase(self, name: str) -> str | None:
        return pods.phase(self._sight.pods[name])

    def _goes(self, name: str, *, only_not_ready: bool) -> bool:
        """Whether one that was told to leave has no job and may go now."""
        if self._phase(name) in NOT_READY:
            return True
        self._mark(name)
        return self._consumers.stop(name) and not only_not_ready

    def _gives_up(self, name: str) -> bool:
        """Whether an idle worker goes. One that took a job goes on, or, if it does not answer,
        leaves at its end."""
        self._mark(name)
        if self._consumers.stop(name):
            return True
        if self._consumers.resume(name):
            self._door.annotate_pod(name, {LEAVES: None})
        else:
            self._told.append(name)
        return False

    def _mark(self, name: str) -> None:
        """Before its worker is told: a scaler that ends in between strands nobody."""
        if not pods.leaves(self._sight.pods[name]):
            self._door.annotate_pod(name, {LEAVES: "true"})


def _youth(worker: Worker) -> tuple[int, float]:
    return NOT_READY.index(worker.phase) if worker.phase in NOT_READY else 0, worker.for_s


def give_up(
    door: Door,
    sight: Sight,
    deployment: Object,
    *,
    exits: Exits,
    crew: Sequence[Worker],
    cluster: Cluster,
    want: int,
) -> int:
    """Write the costs, then the scale; gives the new number. Raises Fault, also Conflict."""
    replicas: int = deployment["spec"].get("replicas") or 0
    # Replicas that have no pod yet cost nobody anything.
    unborn = max(0, replicas - len(crew))
    over = replicas - len(exits.going) - exits.later - want
    left = replicas - len(exits.going) - min(unborn, max(0, over))
    if left == replicas:
        return replicas
    wrote = False
    for worker in crew:
        cost = GOES if worker.name in exits.going else ""
        if annotation(sight.pods[worker.name], DELETION_COST) != cost:
            door.annotate_pod(worker.name, {DELETION_COST: cost or None})
            wrote = True
    if wrote:
        time.sleep(cluster.settle_s)
    door.scale(deployment, replicas=left)
    return left
