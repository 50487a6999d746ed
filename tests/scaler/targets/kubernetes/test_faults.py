"""What goes wrong is told in words, and holds rather than destroys."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client

from scaler.targets.base import GpuRequest, Unseen, Wanted
from scaler.targets.kubernetes.connect import client_of
from scaler.targets.kubernetes.door import Door
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import House, MakeHouse, bulk, revision, wants, words

SOON_S = 0.3
MUCH_LATER_S = 60.0
"""Before this it was not waited for, however slow this machine is."""


# The API server


def test_a_server_that_is_down_is_unseen_and_holds_everything(house: House) -> None:
    api = client_of(client.Configuration(host="http://127.0.0.1:9"))
    target = house.target(door=Door(api, namespace=house.namespace))
    with pytest.raises(Unseen, match="did not answer"):
        target.look()
    assert "Everything is held as it is" in words(target.act([wants(1)]).problems)
    api.close()


def test_no_call_outlasts_its_time_limit(house: House, stub_only: ApiStub) -> None:
    target = house.target(door=house.door(timeout_s=SOON_S))
    stub_only.calls.clear()
    began = time.monotonic()
    with stub_only.frozen(), pytest.raises(Unseen, match=r"within 0\.3 s"):
        target.look()
    assert time.monotonic() - began < MUCH_LATER_S
    assert len(stub_only.calls) <= 1, "it is not tried again"


@pytest.mark.parametrize("fault", [{"hang_up": True}, {"status": 500}, {"status": 503}])
def test_half_an_answer_is_no_answer(
    house: House, stub_only: ApiStub, fault: dict[str, Any]
) -> None:
    target = house.target()
    target.act([wants(2)])
    with stub_only.trouble("GET .*/pods", **fault):
        with pytest.raises(Unseen):
            target.look()
        assert "Everything is held" in words(target.act([wants(0)]).problems)
    assert house.replicas() == 2


def test_a_server_that_asks_for_patience_is_not_asked_until_then(
    house: House, stub_only: ApiStub
) -> None:
    target = house.target(door=house.door(clock=house.clock))
    with stub_only.trouble("GET", status=429, headers={"Retry-After": "7"}):
        began = time.monotonic()
        with pytest.raises(Unseen, match="patience for 7 s"):
            target.look()
        assert time.monotonic() - began < 7
    stub_only.calls.clear()
    house.clock.now += 6
    with pytest.raises(Unseen, match="another 1 s"):
        target.look()
    assert stub_only.calls == []
    house.clock.now += 1
    target.look()


def test_a_list_that_got_too_old_is_read_from_the_start(house: House, stub_only: ApiStub) -> None:
    target = house.target()
    target.act([wants(4)])
    stub_only.page = 2
    with stub_only.trouble("GET .*/pods", times=1, status=410):
        assert len(target.look().workers) == 4


def test_every_page_of_a_list_is_read(house: House, stub_only: ApiStub) -> None:
    target = house.target()
    target.act([wants(3)])
    stub_only.page = 1
    assert len(target.look().workers) == 3


def test_a_refusal_of_one_revision_holds_that_one_alone(house: House, stub_only: ApiStub) -> None:
    with stub_only.trouble("PATCH .*/worker-fold-r1/scale", status=403):
        report = house.target().act([wants(1), wants(1, model="dock")])
    assert "fold@r1 is held as it is: the API server answered 403" in words(report.problems)
    assert (house.replicas(), house.replicas("worker-dock-r1")) == (0, 1)


def test_an_event_that_cannot_be_written_holds_nothing(house: House, stub_only: ApiStub) -> None:
    with stub_only.trouble("POST .*/events", status=500):
        report = house.target().act([wants(2)])
    assert report.problems == ()
    assert house.replicas() == 2


def test_something_that_is_no_api_server_is_told_from_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = SimpleNamespace(data=b"<html>")
    monkeypatch.setattr(house.api, "call_api", lambda *_path, **_options: page)
    with pytest.raises(Unseen, match="no API server"):
        house.target().look()


# Who may write


def test_who_does_not_lead_writes_nothing(house: House) -> None:
    target = house.target(door=house.door(leads_for_s=lambda: 0.0))
    report = target.act([wants(1)])
    assert "this scaler does not lead" in words(report.problems)
    assert client.AppsV1Api(house.api).list_namespaced_deployment(house.namespace).items == []


def test_a_write_ends_before_the_lead_does(house: House, stub_only: ApiStub) -> None:
    house.target().act([wants(0)])
    target = house.target(door=house.door(leads_for_s=lambda: SOON_S))
    with _hanging(stub_only, "PATCH .*/scale"):
        began = time.monotonic()
        assert "within 0.3 s" in words(target.act([wants(1)]).problems)
        assert time.monotonic() - began < MUCH_LATER_S


@contextmanager
def _hanging(stub: ApiStub, match: str) -> Iterator[None]:
    """Such a call is not answered within the block."""
    over = threading.Event()
    try:
        with stub.trouble(match, before=lambda _store: over.wait(), times=1):
            yield
    finally:
        over.set()


# Pods


def test_a_pod_that_finds_no_node_is_told_and_gets_no_company(house: House) -> None:
    target = house.target(cards_per_node=4)
    [node] = house.kubelet.nodes
    small = {"allocatable": {"nvidia.com/gpu": "1"}, "capacity": {"nvidia.com/gpu": "1"}}
    house.kubelet.core.patch_node_status(node, {"status": small})
    target.act([wants(2)])
    house.kubelet.until(lambda: _phases(house) == ["Pending", "Running"])
    assert target.look().problems == ()
    house.clock.now += 121
    assert "has found no node for 121 s (0/" in words(target.look().problems)
    report = target.act([wants(3)])
    assert "fold@r1 is held as it is: it gets no further worker" in words(report.problems)
    assert house.replicas() == 2


def _phases(house: House) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in house.kubelet.pods())


@pytest.mark.parametrize(
    ("waiting", "sentence"),
    [
        ({"reason": "CrashLoopBackOff"}, "crashes again and again (7 restarts, last exit code 75"),
        ({"reason": "ImagePullBackOff", "message": "not found"}, "cannot get its image"),
        ({"reason": "CreateContainerConfigError"}, "lacks a ConfigMap or a Secret"),
    ],
)
def test_a_pod_that_cannot_start_is_told_and_gets_no_company(
    house: House, waiting: dict[str, str], sentence: str
) -> None:
    target = house.target()
    house.kubelet.loading.add("fold")
    target.act([wants(1)])
    [name] = house.kubelet.until(lambda: house.kubelet.names("fold"))
    container = {
        "name": "worker",
        "image": "worker:1",
        "imageID": "",
        "ready": False,
        "restartCount": 7,
        "state": {"waiting": waiting},
        "lastState": {"terminated": {"exitCode": 75}},
    }
    house.kubelet.say(name, ready=False, containerStatuses=[container])
    assert sentence in words(target.look().problems)
    target.act([wants(2)])
    assert house.replicas() == 1


def test_a_pod_that_its_node_refused_holds_no_card_and_stops_further_ones(house: House) -> None:
    target = house.target()
    target.act([wants(1)])
    _refuse(house, 1)
    seen = target.look()
    assert "failed (UnexpectedAdmissionError: no device)" in words(seen.problems)
    assert [each.holds for each in seen.workers if each.phase == "failed"] == [False]
    target.act([wants(2)])
    assert house.replicas() == 1
    house.clock.now += 301
    target.act([wants(2)])
    assert house.replicas() == 2


def test_a_storm_of_refused_pods_is_stopped_without_touching_those_that_serve(
    house: House,
) -> None:
    target = house.target()
    target.act([wants(1)])
    serving = house.kubelet.until_ready("fold", 1)
    house.kubelet.loading.add("fold")
    target.act([wants(3)])
    _refuse(house, 3)
    # Whose pods are refused is held; see Sources.
    target.act([Wanted(revision=revision(), hold=True)])
    assert house.replicas() == 1
    left = {each.name for each in target.look().workers if each.phase in ("loading", "ready")}
    assert left == serving
    house.kubelet.until(lambda: not house.kubelet.names("fold", ending=True))
    target.act([wants(3), wants(3, model="dock")])
    assert house.replicas("worker-dock-r1") == 3  # who failed holds no card
    target.act([wants(3), wants(0, model="dock")])
    house.kubelet.until(lambda: not house.kubelet.names("dock", ending=True))
    house.clock.now += 301
    for _ in range(2):
        target.act([wants(3)])
        assert house.replicas() == 3


def _refuse(house: House, number: int) -> None:
    """So many pods are refused, and replaced each time."""
    for _ in range(number):
        name = house.kubelet.until(lambda: _unready(house)[:1])[0]
        house.kubelet.say(
            name,
            ready=False,
            phase="Failed",
            reason="UnexpectedAdmissionError",
            message="no device",
        )


def _unready(house: House) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in house.kubelet.pods()
        if "nodeName" in pod["spec"]
        and pod["status"]["phase"] != "Failed"
        and all(each["status"] == "False" for each in pod["status"].get("conditions") or [])
    ]


def test_a_bulk_job_that_cannot_start_gets_no_company(house: House) -> None:
    target = house.target()
    house.kubelet.loading.add("fold")
    target.act([bulk(1, "1")])
    [name] = house.kubelet.until(lambda: house.kubelet.names("fold"))
    waiting = {"state": {"waiting": {"reason": "ErrImagePull"}}}
    container = {"name": "worker", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    house.kubelet.say(name, ready=False, containerStatuses=[{**container, **waiting}])
    report = target.act([bulk(2, "1", "2")])
    assert "cannot get its image" in words(report.problems)
    assert report.done == ()


# What people do


def test_what_was_edited_by_hand_is_told_and_left(house: House) -> None:
    target = house.target()
    target.act([wants(1)])
    client.AppsV1Api(house.api).patch_namespaced_deployment(
        "worker-fold-r1",
        house.namespace,
        {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}},
    )
    report = target.act([wants(2, image="worker:2")])
    told = "edited by hand (spec.template.spec.terminationGracePeriodSeconds)"
    assert told in words(report.problems)
    found = house.deployment("worker-fold-r1")
    assert found.spec.template.spec.termination_grace_period_seconds == 5
    assert found.spec.template.spec.containers[0].image == "worker:1"
    assert found.spec.replicas == 2


def test_a_number_of_workers_set_by_hand_is_brought_back_without_harm(house: House) -> None:
    target = house.target()
    target.act([wants(1)])
    house.kubelet.until_ready("fold", 1)
    client.AppsV1Api(house.api).patch_namespaced_deployment_scale(
        "worker-fold-r1", house.namespace, {"spec": {"replicas": 3}}
    )
    house.kubelet.until_ready("fold", 3)
    target.act([wants(1)])
    assert house.replicas() == 3
    idle = sorted(house.kubelet.names("fold"))[:2]
    target.act([wants(1, *idle)])
    assert house.replicas() == 1


def test_a_deployment_that_is_gone_is_made_anew(house: House) -> None:
    target = house.target()
    target.act([wants(1)])
    client.AppsV1Api(house.api).delete_namespaced_deployment("worker-fold-r1", house.namespace)
    target.act([wants(1)])
    assert house.replicas() == 1


def test_a_deployment_that_serves_nothing_any_more_is_left_and_told(house: House) -> None:
    target = house.target()
    target.act([wants(2, model="old")])
    report = target.act([wants(0)])
    assert "The Deployment worker-old-r1 serves no revision that is live" in words(report.problems)
    assert house.replicas("worker-old-r1") == 2


def test_a_model_without_an_image_is_told(house: House) -> None:
    report = house.target().act([wants(1, image=""), wants(1, model="dock")])
    assert "fold@r1 is held as it is: it has no image" in words(report.problems)
    assert house.replicas("worker-dock-r1") == 1


def test_a_share_that_the_flavour_cannot_bound_is_told(house: House) -> None:
    report = house.target(flavour="hami").act([wants(1, gpu=GpuRequest(share=0.5))])
    assert "needs a bound of its memory" in words(report.problems)


# Cards and clocks


def test_cards_that_are_removed_are_told_and_nobody_leaves_for_it(house: House) -> None:
    target = house.target()
    target.act([wants(4)])
    house.kubelet.until_ready("fold", 4)
    [node] = house.kubelet.nodes
    house.kubelet.core.patch_node_status(node, {"status": {"allocatable": {"nvidia.com/gpu": "3"}}})
    seen = target.look()
    assert len(seen.cards) == 3
    assert "1 workers hold cards that are no longer there" in words(seen.problems)
    target.act([wants(4), wants(1, model="dock")])
    assert (house.replicas(), house.replicas("worker-dock-r1")) == (4, 0)


def test_a_node_that_is_cordoned_gets_no_further_worker(house: House) -> None:
    [node] = house.kubelet.nodes
    house.kubelet.core.patch_node(node, {"spec": {"unschedulable": True}})
    report = house.target().act([wants(1)])
    assert "waits for room" in words(report.problems)
    assert "it is cordoned" in words(house.target().look().problems)


def test_a_node_that_is_not_ready_gets_no_further_worker(house: House) -> None:
    [node] = house.kubelet.nodes
    away = {"type": "Ready", "status": "Unknown", "reason": "Test", "message": ""}
    house.kubelet.core.patch_node_status(node, {"status": {"conditions": [away]}})
    seen = house.target().look()
    assert seen.cards == ()
    assert "it is not ready" in words(seen.problems)


def test_a_part_of_a_card_that_nobody_bounds_is_told(house: House) -> None:
    report = house.target(flavour="time-sliced", cards_per_node=1).act([wants(1)])
    assert "fold@r1: time-sliced cards bound nobody's memory" in words(report.problems)


@pytest.mark.parametrize("flavour", ["time-sliced", "mps", "mig"])
def test_parts_of_cards_are_never_taken_for_cards(make_house: MakeHouse, flavour: str) -> None:
    house = make_house(cards=40, resource="nvidia.com/gpu.shared")
    seen = house.target(flavour=flavour).look()
    assert seen.cards == ()
    assert "does not tell how many cards it has" in words(seen.problems)
    assert len(house.target(flavour=flavour, cards_per_node=4).look().cards) == 4


def test_a_node_tells_its_cards_by_feature_discovery(make_house: MakeHouse) -> None:
    house = make_house(
        cards=40, resource="nvidia.com/gpu.shared", labels={"nvidia.com/gpu.count": "2"}
    )
    assert len(house.target(flavour="mps").look().cards) == 2


@pytest.mark.parametrize("date", ["1999-01-01T00:00:00Z", "2099-01-01T00:00:00Z"])
def test_a_clock_that_steps_makes_no_pod_old(house: House, stub_only: ApiStub, date: str) -> None:
    target = house.target()
    house.kubelet.core.patch_node(house.kubelet.nodes[0], {"spec": {"unschedulable": True}})
    target = house.target(cards_per_node=4)
    stub_only.store.create(
        "pods", house.namespace, _pod(house, labels={"foldline.io/model": "fold"})
    )["metadata"]["creationTimestamp"] = date
    [worker] = target.look().workers
    assert (worker.phase, worker.for_s) == ("pending", 0)
    house.clock.now += 5
    assert target.look().workers[0].for_s == 5


def _pod(house: House, *, labels: dict[str, str]) -> dict[str, Any]:
    ours = {
        "app.kubernetes.io/part-of": "foldline",
        "app.kubernetes.io/name": "worker",
        "foldline.io/revision": "r1",
        **labels,
    }
    spec = {"containers": [], "nodeSelector": {"no": "where"}}
    return {"metadata": {"name": "a-pod", "labels": ours}, "spec": spec, "status": {}}


def test_the_name_of_a_revision_is_the_one_a_worker_takes() -> None:
    assert revision("fold", number=3).name == "fold@r3"
