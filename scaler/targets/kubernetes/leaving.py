"""Scale-in of one Deployment, so that nobody with a job is among those who go.

A ReplicaSet takes pods without a node first, then those that are not ready, then those of the
lowest deletion cost. So whoever should go gets a cost, just before, and nobody else has one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from scaler.targets.base import Worker
from scaler.targets.kubernetes.cluster import DELETION_COST, Cluster
from scaler.targets.kubernetes.door import Door, Object
from scaler.targets.kubernetes.sight import Sight

GOES = "-1000"

Quiesce = Callable[[str], bool]
"""Tell a worker, by its pod's name, to take no more jobs; True when it has none now."""


def choose(
    crew: Sequence[Worker], *, replicas: int, want: int, victims: Sequence[str], quiesce: Quiesce
) -> list[str]:
    """The pods to give up of `replicas`: those that serve nobody yet, then idle victims.

    May be fewer than asked for: a worker that took a job in the meantime stays.
    """
    order = {"pending": 0, "loading": 1}
    idle_yet = sorted(
        (each for each in crew if each.phase in order),
        key=lambda each: (order[each.phase], each.for_s),
    )
    excess = replicas - want - max(0, replicas - len(crew))
    going = [each.name for each in idle_yet[: max(0, excess)]]
    ready = {each.name for each in crew if each.phase == "ready"}
    for name in victims:
        if len(going) >= excess:
            break
        if name in ready and quiesce(name):
            going.append(name)
    return going


def give_up(
    door: Door,
    sight: Sight,
    deployment: Object,
    *,
    going: Sequence[str],
    crew: Sequence[Worker],
    cluster: Cluster,
    want: int,
) -> int:
    """Write the costs, then the scale; gives the new number. Raises Fault, also Conflict."""
    replicas: int = deployment["spec"].get("replicas") or 0
    wrote = False
    for worker in crew:
        cost = GOES if worker.name in going else None
        annotations = sight.pods[worker.name]["metadata"].get("annotations", {})
        if annotations.get(DELETION_COST) != cost:
            door.annotate_pod(worker.name, {DELETION_COST: cost})
            wrote = True
    if wrote:
        time.sleep(cluster.settle_s)
    # Replicas that have no pod yet cost nobody anything.
    unborn = max(0, replicas - len(crew))
    left = max(want, replicas - len(going) - unborn)
    if left < replicas:
        door.scale(deployment, replicas=left)
    return left
