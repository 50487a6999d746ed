"""Stands in for nodes with cards and their kubelets, over the API: pods start and end as told.

Works against the stand-in and against a real API server alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from kubernetes import client

Object = dict[str, Any]
T = TypeVar("T")

WITHIN_S = 60.0


class Kubelet:
    """`loading` and `lasting` hold names of models: pods that do not get ready, or do not end."""

    def __init__(self, api: client.ApiClient, *, namespace: str, label: tuple[str, str]) -> None:
        self.core = client.CoreV1Api(api)
        self.namespace, self._label = namespace, dict([label])
        self.loading: set[str] = set()
        self.lasting: set[str] = set()
        self.nodes: list[str] = []

    def add_node(self, *, cards: int, resource: str = "nvidia.com/gpu", **meta: Object) -> str:
        name = f"{self.namespace}-{len(self.nodes)}"
        labels = {**self._label, **meta.pop("labels", {})}
        self.core.create_node({"metadata": {"name": name, "labels": labels, **meta}, "spec": {}})
        size = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"}
        size[resource] = str(cards)
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"capacity": size, "allocatable": size, "conditions": [ready]}
        self.core.patch_node_status(name, {"status": status})
        self.core.patch_node(name, {"spec": {"taints": []}})
        self.nodes.append(name)
        return name

    def remove_nodes(self) -> None:
        for name in self.nodes:
            with suppress(client.ApiException):
                self.core.delete_node(name)

    def pods(self, model: str = "") -> list[Object]:
        """As the server sends them."""
        answer = self.core.list_namespaced_pod(
            self.namespace,
            label_selector=f"foldline.io/model={model}" if model else "",
            _preload_content=False,
        )
        found: list[Object] = json.loads(answer.data)["items"]
        return found

    def names(self, model: str = "", *, ending: bool = False) -> set[str]:
        return {
            pod["metadata"]["name"]
            for pod in self.pods(model)
            if ending == ("deletionTimestamp" in pod["metadata"])
        }

    def beat(self) -> None:
        """Every kubelet looks once."""
        for pod in self.pods():
            model = pod["metadata"].get("labels", {}).get("foldline.io/model", "")
            if pod["spec"].get("nodeName") not in self.nodes:
                continue
            if pod["status"].get("phase") in ("Failed", "Succeeded"):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                if model not in self.lasting:
                    self.remove(pod["metadata"]["name"])
            elif not _ready(pod):
                self.say(pod["metadata"]["name"], ready=model not in self.loading)

    def say(self, name: str, *, ready: bool, phase: str = "Running", **status: Any) -> None:
        """Write a pod's status."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now}
        body = {"status": {"phase": phase, "conditions": [condition], **status}}
        with suppress(client.exceptions.NotFoundException):
            self.core.patch_namespaced_pod_status(name, self.namespace, body)

    def remove(self, name: str) -> None:
        with suppress(client.exceptions.NotFoundException):
            self.core.delete_namespaced_pod(
                name, self.namespace, body=client.V1DeleteOptions(grace_period_seconds=0)
            )

    def until(self, what: Callable[[], T]) -> T:
        """Beat until something is true; gives it."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            if found := what():
                return found
            self.beat()
            time.sleep(0.01)
        raise AssertionError("it did not come true in time")

    def until_ready(self, model: str, number: int) -> set[str]:
        def all_ready() -> set[str]:
            pods = [
                each for each in self.pods(model) if "deletionTimestamp" not in each["metadata"]
            ]
            ready = {each["metadata"]["name"] for each in pods if _ready(each)}
            return ready if len(ready) == len(pods) == number else set()

        return self.until(all_ready)


def _ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
