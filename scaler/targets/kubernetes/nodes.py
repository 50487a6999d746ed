"""The cards of the nodes, each under a name of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable

from scaler.targets.base import Problem
from scaler.targets.kubernetes.cluster import Cluster
from scaler.targets.kubernetes.flavours import GPU
from scaler.targets.kubernetes.objects import Object, annotation

HAMI_REGISTER = "hami.io/node-nvidia-register"
FEATURE_COUNT = "nvidia.com/gpu.count"


def cards_of(nodes: Iterable[Object], *, cluster: Cluster) -> tuple[tuple[str, ...], list[Problem]]:
    """All cards that workers may be placed on now, and what is wrong with the nodes.

    With shared cards a node's allocatable number counts parts, so it is never taken for cards.
    """
    cards: list[str] = []
    problems: list[Problem] = []
    for node in nodes:
        name = node["metadata"]["name"]
        found = _named(node) or [f"{name}/{number}" for number in range(_count(node, cluster))]
        if found and (trouble := _closed(node)):
            problems.append(Problem(words=f"The node {name} is not used: {trouble}."))
        elif not found and _has_parts(node):
            problems.append(
                Problem(
                    words=f"The node {name} does not tell how many cards it has"
                    f" (flavour {cluster.flavour}): set FOLDLINE_GPU_CARDS_PER_NODE."
                )
            )
        else:
            cards += found
    return tuple(sorted(cards)), problems


def node_of(card: str, nodes: Iterable[Object]) -> str:
    """The node a card is in, "" for one that is no longer there."""
    for node in nodes:
        name: str = node["metadata"]["name"]
        if card.startswith(f"{name}/") or card in _named(node):
            return name
    return ""


def _named(node: Object) -> list[str]:
    """What HAMi wrote down: the cards that are healthy, by their UUIDs."""
    try:
        devices = json.loads(annotation(node, HAMI_REGISTER))
        return [str(device["id"]) for device in devices if device.get("health", True)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _count(node: Object, cluster: Cluster) -> int:
    if cluster.cards_per_node:
        return cluster.cards_per_node
    if cluster.flavour == "whole":
        return int(_allocatable(node).get(GPU, 0))
    label = node["metadata"].get("labels", {}).get(FEATURE_COUNT, "")
    return int(label) if label.isdigit() else 0


def _has_parts(node: Object) -> bool:
    return any(name.startswith("nvidia.com/") for name in _allocatable(node))


def _allocatable(node: Object) -> Object:
    allocatable: Object = node.get("status", {}).get("allocatable", {})
    return allocatable


def _closed(node: Object) -> str:
    if node.get("spec", {}).get("unschedulable"):
        return "it is cordoned"
    ready = [
        each["status"]
        for each in node.get("status", {}).get("conditions", [])
        if each["type"] == "Ready"
    ]
    return "" if ready == ["True"] else "it is not ready"
