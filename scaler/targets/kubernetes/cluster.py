"""What the target is told of the cluster it works in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.targets.base import Flavour

PART_OF = "app.kubernetes.io/part-of"
NAME = "app.kubernetes.io/name"
MODEL, REVISION, LANE = "foldline.io/model", "foldline.io/revision", "foldline.io/lane"
JOB = "foldline.io/job"
CARDS, SHARE = "foldline.io/cards", "foldline.io/share"
RENDERED, MEASURED = "foldline.io/rendered", "foldline.io/measured"
LEAVES = "foldline.io/leaves"
"""On a pod: its worker was told to take no more jobs, and the pod goes when it has none."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

WORKERS = f"{PART_OF}=foldline,{NAME}=worker"
"""The label selector of all workers this target makes."""
WEIGHTS = f"{PART_OF}=foldline,{NAME}=weights"
"""And of the Jobs that read weights on a node ahead of them."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """How cards are handed out here, and where workers may stand.

    `node_labels`: of the nodes with our cards; workers stand there and nowhere else.
    `cards_per_node`: needed where the nodes do not tell it (time-slicing and MPS without GPU
    feature discovery). `shared_resource`: what the device plugin calls a part of a card.
    """

    flavour: Flavour = "whole"
    node_labels: Mapping[str, str] = field(default_factory=dict)
    cards_per_node: int = 0
    shared_resource: str = "nvidia.com/gpu.shared"
    kueue_queue: str = ""
    """A Kueue LocalQueue's name; empty without Kueue."""
    settle_s: float = 0.5
    """From the last deletion cost to the scale-in: they reach the controller on two ways."""
    pending_s: float = 120.0
    """A pod that finds no node for this long is told."""
    failed_s: float = 300.0
    """For this long after a pod was refused by its node no further one is asked for."""

    @property
    def node_selector(self) -> str:
        return ",".join(f"{name}={value}" for name, value in sorted(self.node_labels.items()))
