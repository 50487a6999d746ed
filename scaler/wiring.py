"""The pieces of a scaler put together, for each target."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from django.conf import settings

from foldline.jobs.demand import Served
from foldline.jobs.leading import Leader
from foldline.ops.output import Output
from scaler.loop import Loop, plain
from scaler.probe import is_alive
from scaler.sources import Sources
from scaler.targets.advise import AdviseTarget
from scaler.targets.base import Revision, Target
from scaler.targets.local import LocalTarget, memory_mb

if TYPE_CHECKING:
    from scaler.targets.kubernetes.target import KubernetesTarget

HASTE = 50.0
"""An idle process holds memory and no card: beside a person who waits it costs next to nothing."""
DUTY = "scale"
SILENCE_S = 6.0
"""Where the database says who leads, another one may after this long; a round comes every two."""
DOOR_S = 10.0
ELECTOR_DOOR_S = 3.0


class CannotBegin(Exception):
    """There is no such target, or nothing to look at; its text says what to do."""


def local(closing: ExitStack) -> Loop:
    """Workers are processes of this one; they leave with it."""
    leader = Leader(DUTY, keep_s=SILENCE_S)
    closing.callback(leader.end)
    output = Output(settings.HOME / "logs", echo=False)
    target = LocalTarget(
        places=settings.LOCAL_WORKERS, memory_mb=memory_mb(), write=output.write, say=output.say
    )
    closing.callback(target.close, grace_s=settings.WORKER_GRACE_S or None)
    return Loop(target, Sources(target, haste=HASTE), leads=leader, news=target.has_news)


def kubernetes(closing: ExitStack) -> Loop:
    target, leads = _in_cluster(closing)
    return _for_pods(target, leads)


def advise(closing: ExitStack) -> Loop:
    """Says how many. It keeps the Deployments for somebody else to scale, and sends the Jobs of
    the lane `bulk`, of which there is no number to scale."""
    cluster, leads = _in_cluster(closing)
    return _for_pods(AdviseTarget(look=cluster.look, keep=cluster.tend), leads)


def _for_pods(target: Target, leads: Callable[[], bool]) -> Loop:
    sources = Sources(target, flavour=settings.GPU_FLAVOUR)
    return Loop(target, sources, leads=leads, describe=in_pod, own_jobs=True)


def in_pod(served: Served) -> Revision:
    """A revision with the image of its runtime."""
    return replace(plain(served), image=settings.WORKER_IMAGES.get(served.runtime, ""))


def _in_cluster(closing: ExitStack) -> tuple[KubernetesTarget, Callable[[], bool]]:
    # Only here: on one machine nobody needs the client.
    from scaler.quiesce import Quiescing
    from scaler.targets.kubernetes.cluster import Cluster
    from scaler.targets.kubernetes.connect import NoCluster, connect
    from scaler.targets.kubernetes.door import Door
    from scaler.targets.kubernetes.elector import Elector
    from scaler.targets.kubernetes.target import KubernetesTarget

    namespace = settings.NAMESPACE
    try:
        own, other = connect(), connect()
    except NoCluster as error:
        raise CannotBegin(f"Nothing can be scaled or advised. {error}") from error
    elector = Elector(Door(own, namespace=namespace, timeout_s=ELECTOR_DOOR_S), well=_is_well)
    elector.start()
    closing.callback(elector.end)
    door = Door(other, namespace=namespace, timeout_s=DOOR_S, leads_for_s=elector.leads_for_s)
    cluster = Cluster(
        flavour=settings.GPU_FLAVOUR,
        node_labels=settings.GPU_NODES,
        cards_per_node=settings.GPU_CARDS_PER_NODE,
        kueue_queue=settings.KUEUE_QUEUE,
    )
    target = KubernetesTarget(door, cluster=cluster, consumers=Quiescing())
    return target, lambda: elector.leads_for_s() > 0


def _is_well() -> bool:
    """Whose rounds hang must not lead. Without a folder for signs nobody can tell."""
    return "FOLDLINE_SIGNS" not in os.environ or is_alive(now=time.monotonic())


TARGETS: dict[str, Callable[[ExitStack], Loop]] = {
    "local": local,
    "kubernetes": kubernetes,
    "advise": advise,
}
NAMES = "local, kubernetes or advise"


def loop(target: str, *, closing: ExitStack) -> Loop:
    """The loop for a target; what must end with it is put on `closing`. Raises CannotBegin."""
    if target not in TARGETS:
        raise CannotBegin(f"{target!r} is no target: FOLDLINE_SCALER_TARGET is {NAMES}.")
    return TARGETS[target](closing)
