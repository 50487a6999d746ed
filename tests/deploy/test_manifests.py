"""What `kubectl apply -k` would send: valid, restricted, and no more rights than needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import yaml

from foldline.environment import ROOT
from scaler.targets.base import Revision
from scaler.targets.kubernetes import render
from scaler.targets.kubernetes.cluster import Cluster
from scaler.targets.kubernetes.elector import LEASE
from tests.manifests import check

Object = dict[str, Any]

OVERLAYS = ["overlays/production", "overlays/keda"]
NO_SCHEMA = {"ScaledObject", "TriggerAuthentication"}


@cache
def build(folder: str) -> tuple[Object, ...]:
    if shutil.which("kubectl") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("kubectl is not installed here, and CI must not skip what it checks")
        pytest.skip("kubectl is not installed here: nothing to build the manifests with")
    command = ["kubectl", "kustomize", str(ROOT / "deploy" / folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return tuple(yaml.safe_load_all(built.stdout))


def named(kind: str, name: str, *, folder: str = "overlays/production") -> Object:
    [found] = [
        each for each in build(folder) if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


def pods(folder: str) -> Iterator[tuple[str, Object]]:
    for each in build(folder):
        if each["kind"] in ("Deployment", "Job"):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


@pytest.mark.parametrize("folder", OVERLAYS)
def test_every_object_is_valid(folder: str) -> None:
    for each in build(folder):
        if each["kind"] not in NO_SCHEMA:
            check(each)


@pytest.mark.parametrize("folder", OVERLAYS)
def test_every_object_stands_in_the_namespace(folder: str) -> None:
    everywhere = {"Namespace", "PriorityClass", "ClusterRole", "ClusterRoleBinding"}
    for each in build(folder):
        where = each["metadata"].get("namespace")
        assert where == (None if each["kind"] in everywhere else "foldline"), each["metadata"]


def test_every_process_of_a_deployment_is_there() -> None:
    commands = {
        name: pod["containers"][0]["command"][1:] for name, pod in pods("overlays/production")
    }
    assert commands == {
        "foldline-gateway": ["-m", "gunicorn"],
        "foldline-sweeper": ["manage.py", "sweeper"],
        "foldline-forecaster": ["manage.py", "forecaster"],
        "foldline-notifier": ["manage.py", "notifier"],
        "foldline-scaler": ["-m", "scaler"],
        "foldline-migrations": ["manage.py", "migrate"],
    }


def test_a_restricted_namespace_takes_every_pod() -> None:
    namespace = named("Namespace", "foldline")["metadata"]["labels"]
    assert namespace["pod-security.kubernetes.io/enforce"] == "restricted"
    for name, pod in pods("overlays/production"):
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", name
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            closed = container["securityContext"]
            assert closed["allowPrivilegeEscalation"] is False, name
            assert closed["readOnlyRootFilesystem"] is True, name
            assert closed["capabilities"] == {"drop": ["ALL"]}, name
        assert not any("hostPath" in volume for volume in pod["volumes"]), name


def test_a_pod_waits_for_the_schema_before_it_begins() -> None:
    for name, pod in pods("overlays/production"):
        if name != "foldline-migrations":
            assert pod["initContainers"][0]["command"] == [
                "python",
                "manage.py",
                "migrate",
                "--check",
            ]


def test_the_scaler_alone_holds_credentials_of_the_cluster() -> None:
    mounting = {
        name: pod["serviceAccountName"]
        for name, pod in pods("overlays/production")
        if pod["automountServiceAccountToken"]
    }
    assert mounting == {"foldline-scaler": "foldline-scaler"}
    accounts = [each for each in build("base") if each["kind"] == "ServiceAccount"]
    assert not any(each["automountServiceAccountToken"] for each in accounts)


def test_the_scaler_may_do_what_its_calls_need_and_delete_nothing() -> None:
    rules = named("Role", "foldline-scaler")["rules"]
    rights = {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert rights == {
        ("deployments", "list"),
        ("deployments", "create"),
        ("deployments", "update"),
        ("deployments/scale", "patch"),
        ("pods", "list"),
        ("pods", "patch"),
        ("jobs", "list"),
        ("jobs", "create"),
        ("leases", "create"),
        ("leases", "get"),
        ("leases", "update"),
        ("events", "create"),
    }
    named_lease = [rule["resourceNames"] for rule in rules if "get" in rule["verbs"]]
    assert named_lease == [[LEASE]]


@pytest.mark.parametrize("lane", ["online", "long", "bulk"])
def test_what_a_worker_names_is_there(lane: Any) -> None:
    revision = Revision(model="fold", number=1, lane=lane, image="worker:1")
    pod = render.deployment(revision, cluster=Cluster())["spec"]["template"]["spec"]
    named("PriorityClass", pod["priorityClassName"])
    named("ServiceAccount", pod["serviceAccountName"])
    for volume in pod["volumes"]:
        if "persistentVolumeClaim" in volume:
            named("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
    [settings, _secret] = pod["containers"][0]["envFrom"]
    named("ConfigMap", settings["configMapRef"]["name"])


def test_nobody_is_preempted() -> None:
    classes = [each for each in build("base") if each["kind"] == "PriorityClass"]
    assert {each["metadata"]["name"]: each["preemptionPolicy"] for each in classes} == {
        "foldline-server": "Never",
        "foldline-online": "Never",
        "foldline-long": "Never",
        "offline-batch": "Never",
    }
    values = {each["metadata"]["name"]: each["value"] for each in classes}
    assert values["offline-batch"] < 0 < values["foldline-long"]


def test_no_long_worker_is_evicted_and_no_other_is_held() -> None:
    budget = named("PodDisruptionBudget", "foldline-long")["spec"]
    assert budget["maxUnavailable"] == 0
    selector = budget["selector"]["matchLabels"]
    for lane, held in (("long", True), ("online", False)):
        revision = Revision(model="fold", number=1, lane=lane, image="w")  # type: ignore[arg-type]  # both are lanes
        labels = render.deployment(revision, cluster=Cluster())["spec"]["template"]["metadata"]
        assert (selector.items() <= labels["labels"].items()) is held


def test_what_no_policy_names_is_closed() -> None:
    closed = named("NetworkPolicy", "foldline-closed")["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_the_notifier_reaches_receivers_and_no_private_network() -> None:
    policy = named("NetworkPolicy", "foldline-notifier")["spec"]
    [rule] = policy["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 443}]
    blocks = [to["ipBlock"] for to in rule["to"]]
    for address in ("10.0.0.1", "169.254.169.254", "192.168.1.1", "100.64.0.1", "224.0.0.1"):
        assert not any(allows(block, address) for block in blocks), address
    for address in ("fd00::1", "fe80::1", "64:ff9b::7f00:1", "2002:7f00:1::", "::1"):
        assert not any(allows(block, address) for block in blocks), address
    assert any(allows(block, "93.184.216.34") for block in blocks)
    assert any(allows(block, "2606:2800::1") for block in blocks)


def allows(block: Mapping[str, Any], address: str) -> bool:
    within = [ip_address(address) in ip_network(cidr) for cidr in block.get("except", ())]
    return ip_address(address) in ip_network(block["cidr"]) and not any(within)


def test_tickets_and_cache_are_two_stores_outside() -> None:
    stores = named("NetworkPolicy", "foldline-stores")["spec"]["egress"]
    redis = [each["to"] for each in stores if each["ports"][0]["port"] == 6379]
    assert len(redis) == 2
    assert redis[0] != redis[1]
    assert not any(each["kind"] == "StatefulSet" for each in build("overlays/production"))


@pytest.mark.parametrize("who", ["server", "worker"])
def test_tickets_and_news_have_an_address_each(who: str) -> None:
    example = ROOT / "deploy" / "overlays" / "production" / f"{who}.env.example"
    lines = [line for line in example.read_text().splitlines() if not line.startswith("#")]
    said = dict(line.split("=", 1) for line in lines if line)
    assert said["REDIS_URL"] != said["FOLDLINE_EVENTS_URL"]


def test_probes_call_the_gateway_by_a_name_it_answers_to() -> None:
    hosts = named("ConfigMap", "foldline")["data"]["FOLDLINE_HOSTS"].split(",")
    [container] = named("Deployment", "foldline-gateway")["spec"]["template"]["spec"]["containers"]
    for probe in ("readinessProbe", "livenessProbe"):
        [header] = container[probe]["httpGet"]["httpHeaders"]
        assert header == {"name": "Host", "value": "localhost"}
        assert header["value"] in hosts


def test_where_keda_acts_the_scaler_only_advises() -> None:
    def target(folder: str) -> str:
        scaler = named("Deployment", "foldline-scaler", folder=folder)
        [container] = scaler["spec"]["template"]["spec"]["containers"]
        return str({each["name"]: each.get("value") for each in container["env"]}[TARGET])

    assert target("overlays/production") == "kubernetes"
    assert target("overlays/keda") == "advise"
    scaled = named("ScaledObject", "worker-proteinmpnn-r1", folder="overlays/keda")["spec"]
    revision = Revision(model="proteinmpnn", number=1, lane="online")
    assert scaled["scaleTargetRef"]["name"] == render.object_name(revision)
    assert scaled["fallback"]["behavior"] == "currentReplicasIfHigher"
    [trigger] = scaled["triggers"]
    assert trigger["metadata"]["url"].endswith(f"/scaling/v1/models/{revision.name}")


TARGET = "FOLDLINE_SCALER_TARGET"
