"""What the stand-in for an API server keeps, and the controllers that act on it.

As much of Kubernetes as the target meets: Deployments with one ReplicaSet a template, Jobs, a
scheduler that counts cards. The order of a scale-in is the one of the real ReplicaSet controller.
"""

from __future__ import annotations

import copy
import itertools
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

COST = "controller.kubernetes.io/pod-deletion-cost"
HAMI = {"nvidia.com/gpumem", "nvidia.com/gpucores"}
PLURALS = {
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "serviceaccounts": ("v1", "ServiceAccount"),
    "pods": ("v1", "Pod"),
    "deployments": ("apps/v1", "Deployment"),
    "replicasets": ("apps/v1", "ReplicaSet"),
    "jobs": ("batch/v1", "Job"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
    "events": ("events.k8s.io/v1", "Event"),
    "priorityclasses": ("scheduling.k8s.io/v1", "PriorityClass"),
}


class Status(Exception):
    """An answer that is not 200."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Store:
    """All objects, by plural, namespace and name."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._versions = itertools.count(1)

    def all(self, plural: str, *, namespace: str = "", labels: str = "") -> list[Object]:
        wanted = dict(term.split("=") for term in labels.split(",") if term)
        return [
            each
            for (kind, where, _), each in sorted(self._objects.items())
            if kind == plural
            and (not namespace or where == namespace)
            and wanted.items() <= each["metadata"].get("labels", {}).items()
        ]

    def get(self, plural: str, namespace: str, name: str) -> Object:
        try:
            return self._objects[plural, namespace, name]
        except KeyError:
            raise Status(404, f'{plural} "{name}" not found') from None

    def create(self, plural: str, namespace: str, body: Object) -> Object:
        version, kind = PLURALS[plural]
        made = canonical(body)
        meta = made["metadata"]
        if (plural, namespace, meta["name"]) in self._objects:
            raise Status(409, f'{plural} "{meta["name"]}" already exists')
        made |= {"apiVersion": version, "kind": kind}
        meta |= {
            "uid": uuid.uuid4().hex,
            "generation": 1,
            "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if namespace:
            meta["namespace"] = namespace
        if plural == "deployments":
            made["spec"].setdefault("replicas", 1)
        return self.put(plural, made)

    def put(self, plural: str, changed: Object) -> Object:
        meta = changed["metadata"]
        meta["resourceVersion"] = str(next(self._versions))
        self._objects[plural, meta.get("namespace", ""), meta["name"]] = changed
        return changed

    def drop(self, plural: str, gone: Object) -> None:
        meta = gone["metadata"]
        self._objects.pop((plural, meta.get("namespace", ""), meta["name"]), None)

    def check(self, found: Object, sent: Object) -> None:
        """The fence: a version that was sent must be the newest one."""
        version = sent.get("metadata", {}).get("resourceVersion")
        if version and version != found["metadata"]["resourceVersion"]:
            raise Status(409, "the object has been modified; please apply your changes to it again")


def merge(into: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(into) if isinstance(into, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def canonical(body: Object) -> Object:
    """Quantities as the server spells them, and a few of its defaults."""
    spelled: Object = json.loads(json.dumps(body).replace('"1024Mi"', '"1Gi"'))
    template = spelled.get("spec", {}).get("template", {}).get("spec")
    if template is not None:
        template |= {
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": template.get("restartPolicy", "Always"),
        }
    return spelled


def owned(store: Store, plural: str, owner: Object) -> list[Object]:
    uid = owner["metadata"]["uid"]
    return [
        each
        for each in store.all(plural)
        if any(ref["uid"] == uid for ref in each["metadata"].get("ownerReferences", []))
    ]


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_active(pod: Object) -> bool:
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return not ended and "deletionTimestamp" not in pod["metadata"]


def control(store: Store) -> None:
    """Let every controller look once."""
    for deployment in store.all("deployments"):
        _roll(store, deployment)
    for job in store.all("jobs"):
        _run(store, job)
    for pod in store.all("pods"):
        if is_active(pod) and not pod["spec"].get("nodeName"):
            _schedule(store, pod)


def _run(store: Store, job: Object) -> None:
    """A pod at a time; the next one when the one before has gone."""
    pods = owned(store, "pods", job)
    if any(pod["status"].get("phase") == "Succeeded" for pod in pods):
        job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    elif not pods:
        _make_pod(store, job, job["spec"]["template"])


def _roll(store: Store, deployment: Object) -> None:
    """One ReplicaSet a template; maxSurge 0, maxUnavailable 1."""
    template = deployment["spec"]["template"]
    sets = owned(store, "replicasets", deployment)
    newest = next((each for each in sets if each["spec"]["template"] == template), None)
    if newest is None:
        newest = _make_set(store, deployment)
    older = [each for each in sets if each is not newest and each["spec"]["replicas"]]
    replicas = deployment["spec"]["replicas"]
    if not older:
        _resize(store, newest, replicas)
        return
    crew = [pod for each in [newest, *older] for pod in owned(store, "pods", each)]
    if sum(is_ready(pod) and is_active(pod) for pod in crew) >= replicas:
        _resize(store, older[0], older[0]["spec"]["replicas"] - 1)
    held = sum(each["spec"]["replicas"] for each in owned(store, "replicasets", deployment))
    _resize(store, newest, newest["spec"]["replicas"] + replicas - held)


def _make_set(store: Store, deployment: Object) -> Object:
    meta = deployment["metadata"]
    body = {
        "metadata": {
            "name": f"{meta['name']}-{uuid.uuid4().hex[:8]}",
            "ownerReferences": [_ref(deployment)],
        },
        "spec": {"replicas": 0, "template": copy.deepcopy(deployment["spec"]["template"])},
    }
    return store.create("replicasets", meta["namespace"], body)


def _resize(store: Store, replica_set: Object, replicas: int) -> None:
    replica_set["spec"]["replicas"] = max(0, replicas)
    active = [pod for pod in owned(store, "pods", replica_set) if is_active(pod)]
    for _ in range(replicas - len(active)):
        _make_pod(store, replica_set, replica_set["spec"]["template"])
    for pod in sorted(active, key=_rank)[: max(0, len(active) - replicas)]:
        delete_pod(store, pod, grace_s=None)


def _rank(pod: Object) -> tuple[bool, bool, bool, int]:
    cost = pod["metadata"].get("annotations", {}).get(COST, "0")
    running = pod["status"]["phase"] == "Running"
    return bool(pod["spec"].get("nodeName")), running, is_ready(pod), int(cost)


def _make_pod(store: Store, owner: Object, template: Object) -> None:
    meta = owner["metadata"]
    body = {
        "metadata": {
            **copy.deepcopy(template["metadata"]),
            "name": f"{meta['name']}-{uuid.uuid4().hex[:12]}",
            "ownerReferences": [_ref(owner)],
        },
        "spec": copy.deepcopy(template["spec"]),
        "status": {"phase": "Pending"},
    }
    store.create("pods", meta["namespace"], body)


def _ref(owner: Object) -> Object:
    meta = owner["metadata"]
    kind = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
    return {**kind, "uid": meta["uid"], "name": meta["name"], "controller": True}


def delete_pod(store: Store, pod: Object, *, grace_s: int | None) -> None:
    if grace_s == 0:
        store.drop("pods", pod)
        return
    pod["metadata"]["deletionTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    pod["metadata"]["deletionGracePeriodSeconds"] = pod["spec"]["terminationGracePeriodSeconds"]
    store.put("pods", pod)
    if not pod["spec"].get("nodeName"):
        store.drop("pods", pod)


def _schedule(store: Store, pod: Object) -> None:
    wanted = _limits(pod)
    for node in store.all("nodes"):
        selector = pod["spec"].get("nodeSelector", {})
        if node["spec"].get("unschedulable") or not (
            selector.items() <= node["metadata"].get("labels", {}).items()
        ):
            continue
        if all(_left(store, node, name) >= number for name, number in wanted.items()):
            pod["spec"]["nodeName"] = node["metadata"]["name"]
            store.put("pods", pod)
            return
    message = f"0/{len(store.all('nodes'))} nodes are available: Insufficient nvidia.com/gpu."
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    ]


def _left(store: Store, node: Object, resource: str) -> int:
    there = [
        pod
        for pod in store.all("pods")
        if pod["spec"].get("nodeName") == node["metadata"]["name"]
        and pod["status"]["phase"] not in ("Succeeded", "Failed")
    ]
    taken = sum(_limits(pod).get(resource, 0) for pod in there)
    return int(node["status"].get("allocatable", {}).get(resource, 0)) - taken


def _limits(pod: Object) -> dict[str, int]:
    return dict(_cards(pod))


def _cards(pod: Object) -> Iterator[tuple[str, int]]:
    for container in pod["spec"]["containers"]:
        for name, number in container.get("resources", {}).get("limits", {}).items():
            # HAMi's own scheduler counts memory and cores; the nodes do not tell them.
            if name.startswith("nvidia.com/") and name not in HAMI:
                yield name, int(number)
