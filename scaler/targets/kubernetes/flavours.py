"""One GPU request, in the words of each way to hand out cards. Labels and limits only: no CRD."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scaler.targets.base import GpuRequest
from scaler.targets.kubernetes.cluster import Cluster

GPU = "nvidia.com/gpu"


class CannotRender(Exception):
    """The request cannot be said in this flavour; the text tells what is missing."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """What a pod must carry to get its cards."""

    limits: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = ""
    warning: str = ""


def render(request: GpuRequest, *, cluster: Cluster) -> Gpu:
    """Raises CannotRender."""
    if not request.cards:
        return Gpu()
    return FLAVOURS[cluster.flavour](request, cluster)


def _whole(request: GpuRequest, _cluster: Cluster) -> Gpu:
    warning = "" if request.whole else "it asks for a part of a card and gets a whole one here."
    return Gpu(limits={GPU: str(request.cards)}, warning=warning)


def _hami(request: GpuRequest, _cluster: Cluster) -> Gpu:
    limits = {GPU: str(request.cards), "nvidia.com/gpucores": "100"}
    if not request.whole:
        if not request.memory_mib:
            raise CannotRender("a share of a card needs a bound of its memory in MiB.")
        limits["nvidia.com/gpumem"] = str(request.memory_mib)
        limits["nvidia.com/gpucores"] = str(request.cores_pct or round(request.share * 100))
    return Gpu(
        limits=limits,
        # HAMi fills nodes by itself and spreads over their cards unless told.
        annotations={
            "hami.io/node-scheduler-policy": "binpack",
            "hami.io/gpu-scheduler-policy": "binpack",
        },
        # Its webhook would set this, and lets pods pass unbounded while it is down.
        scheduler="hami-scheduler",
    )


def _mig(request: GpuRequest, cluster: Cluster) -> Gpu:
    if request.whole:
        return _whole(request, cluster)
    if not request.mig_profile:
        raise CannotRender("a share of a card needs a MIG profile, such as 1g.10gb.")
    return Gpu(limits={f"nvidia.com/mig-{request.mig_profile}": str(request.cards)})


def _time_sliced(request: GpuRequest, cluster: Cluster) -> Gpu:
    return Gpu(
        limits={cluster.shared_resource: str(request.cards)},
        warning="time-sliced cards bound nobody's memory, and one worker's fault ends them all.",
    )


def _mps(request: GpuRequest, cluster: Cluster) -> Gpu:
    if request.cards > 1:
        raise CannotRender("MPS gives parts of one card; this model needs several cards.")
    return Gpu(
        limits={cluster.shared_resource: "1"},
        warning="MPS gives each worker an equal part of the memory, whatever it asks for.",
    )


FLAVOURS: Mapping[str, Callable[[GpuRequest, Cluster], Gpu]] = {
    "whole": _whole,
    "hami": _hami,
    "mig": _mig,
    "time-sliced": _time_sliced,
    "mps": _mps,
}
