"""From a revision to the objects of Kubernetes that run it."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Container, Iterator
from dataclasses import asdict
from functools import cache
from itertools import count
from pathlib import Path

import yaml

from scaler.targets.base import Revision
from scaler.targets.kubernetes import flavours
from scaler.targets.kubernetes.cluster import (
    CARDS,
    JOB,
    LANE,
    MEASURED,
    MODEL,
    NAME,
    PART_OF,
    RENDERED,
    REVISION,
    SHARE,
    Cluster,
)
from scaler.targets.kubernetes.flavours import CannotRender
from scaler.targets.kubernetes.objects import Object

MARGIN_S = 60
STARTUP_BEAT_S = 5
WAIT_FOR_A_NODE_S = 3600
CLASSES = {"online": "foldline-online", "long": "foldline-long", "bulk": "offline-batch"}


def object_name(revision: Revision) -> str:
    """A DNS name; of a model's name the underscores are not."""
    return f"worker-{revision.model.replace('_', '-')}-r{revision.number}"


def grace_s(revision: Revision) -> int:
    """From SIGTERM to SIGKILL: the longest job, a plugin that is loaded again on the way."""
    return revision.run_timeout_s + revision.load_timeout_s + MARGIN_S


def deployment(revision: Revision, *, cluster: Cluster) -> Object:
    """Born with no replicas. Raises CannotRender."""
    body = copy.deepcopy(_template("worker.yaml"))
    labels = _labels(revision)
    body["metadata"]["name"] = object_name(revision)
    body["metadata"]["labels"] = {**labels, **_queue(cluster)}
    body["spec"]["selector"]["matchLabels"] = {
        name: labels[name] for name in (PART_OF, NAME, MODEL, REVISION)
    }
    body["spec"]["progressDeadlineSeconds"] = grace_s(revision) + _startup_s(revision)
    _fill(body["spec"]["template"], revision, cluster=cluster)
    measured = {"gpu": asdict(revision.gpu), "startup_s": revision.startup_s}
    body["metadata"]["annotations"] = {
        RENDERED: json.dumps(body["spec"], sort_keys=True),
        MEASURED: json.dumps(measured, sort_keys=True),
    }
    return body


def job(revision: Revision, *, job_id: str, cluster: Cluster, taken: Container[str] = ()) -> Object:
    """Named after the job, so that a second one cannot be made while this is not among the names
    `taken`. Raises CannotRender."""
    body = copy.deepcopy(_template("job.yaml"))
    body["metadata"]["name"] = next(each for each in _names(job_id) if each not in taken)
    body["metadata"]["labels"] = {**_labels(revision), JOB: job_id, **_queue(cluster)}
    template = copy.deepcopy(_template("worker.yaml")["spec"]["template"])
    _fill(template, revision, cluster=cluster)
    template["metadata"]["labels"][JOB] = job_id
    template["spec"]["restartPolicy"] = "Never"
    worker = template["spec"]["containers"][0]
    worker["command"] = [*worker["command"], "--once"]
    body["spec"]["template"] = template
    # Counts from the first second, also while the pod waits for a node.
    body["spec"]["activeDeadlineSeconds"] = WAIT_FOR_A_NODE_S + grace_s(revision)
    return body


def _names(job_id: str) -> Iterator[str]:
    yield f"job-{job_id}"
    yield from (f"job-{job_id}-{number}" for number in count(2))


def warning(revision: Revision, *, cluster: Cluster) -> str:
    """What an admin should know of how this revision gets its card, or "". Raises CannotRender."""
    return flavours.render(revision.gpu, cluster=cluster).warning


@cache
def _template(name: str) -> Object:
    loaded: Object = yaml.safe_load(Path(__file__).with_name(name).read_text())
    return loaded


def _fill(template: Object, revision: Revision, *, cluster: Cluster) -> None:
    """The pod: what depends on the revision."""
    if not revision.image:
        raise CannotRender("it has no image: name one for its runtime.")
    gpu = flavours.render(revision.gpu, cluster=cluster)
    template["metadata"]["labels"] = _labels(revision)
    template["metadata"]["annotations"] |= {
        **gpu.annotations,
        CARDS: str(revision.gpu.cards),
        SHARE: f"{revision.gpu.share:g}",
    }
    spec = template["spec"]
    spec["terminationGracePeriodSeconds"] = grace_s(revision)
    spec["priorityClassName"] = CLASSES[revision.lane]
    if gpu.scheduler:
        spec["schedulerName"] = gpu.scheduler
    if cluster.node_labels:
        spec["nodeSelector"] = dict(cluster.node_labels)
    worker = spec["containers"][0]
    worker["image"] = revision.image
    worker["command"] = ["python", "-m", "tasks.worker", revision.name]
    worker["env"] = [*worker["env"], {"name": "FOLDLINE_SHARE", "value": f"{revision.gpu.share:g}"}]
    worker["resources"] = {
        "requests": {"cpu": str(revision.threads), "memory": f"{revision.memory_mb}Mi"},
        "limits": {"memory": f"{revision.memory_mb}Mi", **gpu.limits},
    }
    worker["startupProbe"]["failureThreshold"] = math.ceil(_startup_s(revision) / STARTUP_BEAT_S)


def _startup_s(revision: Revision) -> int:
    """What was measured says more than what was allowed. The margin is for all that comes before
    the load."""
    return (revision.startup_s or revision.load_timeout_s) + MARGIN_S


def _labels(revision: Revision) -> dict[str, str]:
    return {
        PART_OF: "foldline",
        NAME: "worker",
        MODEL: revision.model,
        REVISION: f"r{revision.number}",
        LANE: revision.lane,
    }


def _queue(cluster: Cluster) -> dict[str, str]:
    return {"kueue.x-k8s.io/queue-name": cluster.kueue_queue} if cluster.kueue_queue else {}
