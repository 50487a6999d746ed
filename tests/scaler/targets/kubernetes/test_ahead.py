"""Weights on the nodes ahead of their workers."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from scaler.targets.base import Prepares, Revision
from scaler.targets.kubernetes.ahead import MOST_AT_ONCE, weights_job
from scaler.targets.kubernetes.cluster import WEIGHTS
from scaler.targets.kubernetes.pods import placing
from tests.manifests import check
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import House, revision


def jobs(house: House) -> list[Any]:
    found = client.BatchV1Api(house.api).list_namespaced_job(
        house.namespace, label_selector=WEIGHTS
    )
    return list(found.items)


def test_it_is_valid_restricted_and_asks_for_no_card() -> None:
    body = weights_job(revision("flash_abb"), node="gpu-1")
    check(body)
    pod = body["spec"]["template"]["spec"]
    [reader] = pod["containers"]
    assert reader["command"] == ["python", "manage.py", "weights", "flash_abb@r1"]
    assert not any("gpu" in name for name in reader["resources"]["limits"])
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert reader["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["priorityClassName"] == "offline-batch"


def test_its_name_tells_node_revision_and_image_apart() -> None:
    names = {
        weights_job(each, node=node)["metadata"]["name"]
        for each in (revision(), revision(number=2), revision(image="registry.example/w:2"))
        for node in ("gpu-1", "gpu-2")
    }
    assert len(names) == 6
    assert all(len(name) <= 63 for name in names)


def test_each_node_with_cards_reads_each_revision_once(house: House) -> None:
    house.kubelet.add_node(cards=1)
    target = house.target()
    assert isinstance(target, Prepares)
    report = target.prepare([revision()])
    assert report.problems == ()
    assert len(report.done) == 2
    assert len(jobs(house)) == 2
    asked = len(house.stub.calls) if house.stub else 0
    assert target.prepare([revision()]).done == (), "it is there already"
    assert not any("POST" in call for call in (house.stub.calls if house.stub else [])[asked:])
    assert target.look().workers == (), "it is no worker and holds no card"


def test_a_node_reads_few_at_a_time(house: House) -> None:
    several = [revision(number=number) for number in range(1, 6)]
    house.target().prepare(several)
    assert len(jobs(house)) == MOST_AT_ONCE


def test_a_revision_without_an_image_is_left_out(house: House) -> None:
    bare = Revision(model="fold", number=1, lane="online")
    assert house.target().prepare([bare]).done == ()


@pytest.mark.parametrize("status", [403, 429, 500])
def test_a_server_that_does_not_take_it_is_told_and_no_fault_of_the_round(
    house: House, stub_only: ApiStub, status: int
) -> None:
    with stub_only.trouble("POST .*/jobs", status=status):
        report = house.target().prepare([revision()])
    [problem] = report.problems
    assert problem.words.startswith("Weights are not read ahead: ")
    assert not problem.blocks


def test_another_scaler_that_was_quicker_is_no_trouble(house: House, stub_only: ApiStub) -> None:
    with stub_only.trouble("POST .*/jobs", status=409):
        assert house.target().prepare([revision()]).problems == ()


def test_a_running_pod_tells_how_long_it_waited_for_its_node_and_its_image() -> None:
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T10:00:00Z"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastTransitionTime": "2026-01-01T10:00:02Z",
                }
            ],
            "containerStatuses": [
                {"state": {"running": {"startedAt": "2026-01-01T10:00:42Z"}}, "restartCount": 0}
            ],
        },
    }
    assert dict(placing(pod)) == {"schedule": 2.0, "image": 40.0}
    pod["status"]["containerStatuses"][0]["restartCount"] = 1
    assert placing(pod) == (), "its start is not the first one's"
    assert placing({"metadata": {"name": "p"}}) == ()


def test_models_of_nearly_the_same_name_get_a_job_each() -> None:
    long = "a" * 40
    names = {
        weights_job(revision(model=f"{long}{end}"), node="node-a")["metadata"]["name"]
        for end in "xy"
    }
    assert len(names) == 2
