"""Weights on a node ahead of its workers: a small Job for each node and revision.

The Job's name says node, revision and image, so that a second one cannot be made; the server
deletes it a day after its end, and the next look makes it anew.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from scaler.targets.base import Problem, Report, Revision
from scaler.targets.kubernetes.cluster import MODEL, NAME, PART_OF, REVISION, WEIGHTS, Cluster
from scaler.targets.kubernetes.door import Door
from scaler.targets.kubernetes.faults import Conflict, Fault
from scaler.targets.kubernetes.nodes import cards_of
from scaler.targets.kubernetes.objects import Object, has_ended

MOST_AT_ONCE = 2
"""Jobs on one node that have not ended: pulling ten images at a time would help nobody."""


def weights_job(revision: Revision, *, node: str) -> Object:
    """Of one node, by its name as the server knows it."""
    body: Object = copy.deepcopy(_template())
    labels = {
        PART_OF: "foldline",
        NAME: "weights",
        MODEL: revision.model,
        REVISION: f"r{revision.number}",
    }
    where = hashlib.sha256(f"{node} {revision.image} {revision.name}".encode()).hexdigest()[:10]
    name = f"weights-{revision.model.replace('_', '-')[:30]}-r{revision.number}-{where}"
    body["metadata"] = {"name": name, "labels": labels}
    pod: dict[str, Any] = body["spec"]["template"]
    pod["metadata"]["labels"] = dict(labels)
    pod["spec"]["affinity"] = _only(node)
    [reader] = pod["spec"]["containers"]
    reader["image"] = revision.image
    reader["command"] = ["python", "manage.py", "weights", revision.name]
    return body


def prepare(door: Door, revisions: Sequence[Revision], *, cluster: Cluster) -> Report:
    """Make the Jobs that are not there. Cards are not asked for, so nobody waits for them."""
    try:
        there = door.jobs(WEIGHTS)
        nodes = [
            node["metadata"]["name"]
            for node in door.nodes(cluster.node_selector)
            if cards_of([node], cluster=cluster)[0]
        ]
        done = list(_make(door, revisions, nodes=nodes, there=there))
    except Fault as fault:
        return Report(problems=(Problem(words=f"Weights are not read ahead: {fault}"),))
    return Report(done=tuple(done))


def _make(
    door: Door, revisions: Sequence[Revision], *, nodes: Iterable[str], there: Sequence[Object]
) -> Iterable[str]:
    known = {each["metadata"]["name"] for each in there}
    for node in nodes:
        at_work = sum(_node(each) == node and not has_ended(each) for each in there)
        for revision in revisions:
            body = weights_job(revision, node=node)
            if at_work >= MOST_AT_ONCE or not revision.image or body["metadata"]["name"] in known:
                continue
            try:
                door.create_job(body)
            except Conflict:
                continue  # it is there already
            at_work += 1
            yield f"{revision.name}: its weights are read on {node}"


def _only(node: str) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _node(job: Object) -> str:
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(term["matchFields"][0]["values"][0])


@cache
def _template() -> Object:
    loaded: Object = yaml.safe_load(Path(__file__).with_name("weights.yaml").read_text())
    return loaded
