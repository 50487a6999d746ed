"""A namespace with nodes, and how to make targets for it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubernetes import client

from scaler.targets.base import GpuRequest, Revision, Wanted
from scaler.targets.kubernetes.cluster import Cluster
from scaler.targets.kubernetes.door import Door
from scaler.targets.kubernetes.target import KubernetesTarget
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.kubelet import Kubelet

REAL = os.environ.get("KUBE") == "real"
CLAIMS = ("foldline-artifacts", "foldline-checkpoints", "foldline-weights")


@dataclass
class Clock:
    """A steady clock that tests wind on."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(kw_only=True)
class House:
    """A namespace, its nodes, and how to make targets and doors for it."""

    api: client.ApiClient
    namespace: str
    kubelet: Kubelet
    stub: ApiStub | None
    clock: Clock = field(default_factory=Clock)
    busy: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    """Workers that were told to take no more jobs."""
    resumed: list[str] = field(default_factory=list)
    deaf: set[str] = field(default_factory=set)
    """Workers that do not answer when they are to take jobs again."""

    def door(self, **changes: Any) -> Door:
        return Door(self.api, **{"namespace": self.namespace, "timeout_s": 60.0, **changes})

    def target(self, *, door: Door | None = None, **cluster: Any) -> KubernetesTarget:
        # With the stand-in there is no cache that must settle.
        settings = {"node_labels": self.labels, "settle_s": 0.5 if REAL else 0.0, **cluster}
        return KubernetesTarget(
            door or self.door(),
            cluster=Cluster(**settings),
            consumers=self,
            clock=self.clock,
        )

    @property
    def labels(self) -> dict[str, str]:
        return {"foldline.io/test": self.namespace}

    def stop(self, pod: str) -> bool:
        self.asked.append(pod)
        return pod not in self.busy

    def resume(self, pod: str) -> bool:
        self.resumed.append(pod)
        return pod not in self.deaf

    def deployment(self, name: str) -> Any:
        return client.AppsV1Api(self.api).read_namespaced_deployment(name, self.namespace)

    def replicas(self, name: str = "worker-fold-r1") -> int:
        return self.deployment(name).spec.replicas or 0


class MakeHouse(Protocol):
    def __call__(self, **nodes: Any) -> House: ...


def furnish(house: House) -> None:
    core = house.kubelet.core
    core.create_namespace({"metadata": {"name": house.namespace}})
    core.create_namespaced_service_account(
        house.namespace, {"metadata": {"name": "foldline-worker"}}
    )
    if REAL:
        for claim in CLAIMS:
            _volume(core, house.namespace, claim)
    for name in ("foldline-online", "foldline-long", "offline-batch"):
        with suppress(client.ApiException):
            client.SchedulingV1Api(house.api).create_priority_class(
                {"metadata": {"name": name}, "value": 0, "preemptionPolicy": "Never"}
            )


def _volume(core: client.CoreV1Api, namespace: str, claim: str) -> None:
    """A real scheduler waits until a pod's claims are bound."""
    name = f"{namespace}-{claim}"
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    core.create_persistent_volume(
        {
            "metadata": {"name": name},
            "spec": {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/nowhere"}},
        }
    )
    core.create_namespaced_persistent_volume_claim(
        namespace,
        {
            "metadata": {"name": claim},
            "spec": {
                **common,
                "volumeName": name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )


def clear(house: House) -> None:
    apps = client.AppsV1Api(house.api)
    apps.delete_collection_namespaced_deployment(house.namespace)
    house.kubelet.lasting.clear()
    with suppress(AssertionError):
        house.kubelet.until(lambda: not house.kubelet.pods())
    house.kubelet.remove_nodes()
    for claim in CLAIMS:
        house.kubelet.core.delete_persistent_volume(f"{house.namespace}-{claim}")
    house.kubelet.core.delete_namespace(house.namespace)


def revision(model: str = "fold", **changes: Any) -> Revision:
    settings = {"number": 1, "lane": "online", "image": "worker:1", "memory_mb": 1024, **changes}
    return Revision(model=model, **settings)


def wants(workers: int, *victims: str, model: str = "fold", **changes: Any) -> Wanted:
    return Wanted(revision=revision(model, **changes), workers=workers, victims=victims)


def bulk(
    workers: int, *jobs: str, model: str = "fold", drains: tuple[str, ...] = (), **changes: Any
) -> Wanted:
    """So many workers in the lane `bulk`, for these jobs."""
    of = revision(model, lane="bulk", **changes)
    return Wanted(revision=of, workers=workers, jobs=jobs, drains=drains)


def words(problems: Any) -> str:
    return "\n".join(each.words for each in problems)


def quarter() -> GpuRequest:
    return GpuRequest(share=0.25, memory_mib=20000, mig_profile="2g.20gb")


def hami(*cards: str) -> dict[str, str]:
    """What HAMi writes on a node with these cards."""
    devices = ", ".join(f'{{"id": "{card}", "health": true}}' for card in cards)
    return {"hami.io/node-nvidia-register": f"[{devices}]"}
