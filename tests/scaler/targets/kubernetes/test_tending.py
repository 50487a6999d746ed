"""What was measured reaches the next workers; nobody leaves for it."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from scaler.targets.base import GpuRequest, Wanted
from tests.scaler.targets.kubernetes.house import House, MakeHouse, hami, quarter, revision, wants


def limits(house: House) -> dict[str, str]:
    [worker] = house.deployment("worker-fold-r1").spec.template.spec.containers
    return dict(worker.resources.limits)


def startup_s(house: House) -> int:
    [worker] = house.deployment("worker-fold-r1").spec.template.spec.containers
    return int(worker.startup_probe.failure_threshold) * 5


def test_a_new_piece_waits_until_there_are_no_workers(house: House) -> None:
    target = house.target(flavour="hami", cards_per_node=4)
    target.act([wants(1)])
    before = house.kubelet.names("fold")
    assert target.act([wants(1, gpu=quarter(), startup_s=100)]).done == ()
    assert house.kubelet.names("fold") == before
    assert "nvidia.com/gpumem" not in limits(house)
    target.act([wants(0, *house.kubelet.until_ready("fold", 1), gpu=quarter())])
    report = target.act([wants(0, gpu=quarter(), startup_s=100)])
    assert report.done == ("fold@r1: new settings are for its next workers",)
    assert limits(house)["nvidia.com/gpumem"] == "20000"
    assert startup_s(house) == 160


def test_a_setting_reaches_the_workers_and_what_was_measured_stays_behind(house: House) -> None:
    target = house.target(flavour="hami", cards_per_node=4)
    target.act([wants(1)])
    report = target.act([wants(1, image="worker:2", gpu=quarter())])
    assert report.done == ("fold@r1: new settings reach its workers one after another",)
    assert "nvidia.com/gpumem" not in limits(house)


def test_a_longer_start_reaches_workers_that_do_not_start(house: House) -> None:
    """Else a probe that was set too short would end each of them for ever."""
    target = house.target()
    target.act([wants(0, startup_s=60)])
    house.kubelet.loading.add("fold")
    target.act([wants(1, startup_s=60)])
    [name] = house.kubelet.until(lambda: house.kubelet.names("fold"))
    crashing: dict[str, Any] = {"name": "worker", "image": "", "imageID": "", "ready": False}
    crashing |= {"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    house.kubelet.say(name, ready=False, containerStatuses=[crashing])
    target.act([Wanted(revision=revision(load_timeout_s=600), hold=True)])
    assert startup_s(house) == 660


def test_further_workers_find_room_by_the_piece_that_the_deployment_gives(
    make_house: MakeHouse,
) -> None:
    house = make_house(cards=20, annotations=hami("card-a", "card-b"))
    target = house.target(flavour="hami")
    target.act([wants(1)])
    target.act([wants(4, gpu=quarter())])
    assert house.replicas() == 2, "they still take whole cards"


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_worker_is_told_its_share(house: House, share: float) -> None:
    gpu = GpuRequest(share=share, memory_mib=1 if share < 1 else 0)
    house.target(flavour="hami", cards_per_node=4).act([wants(0, gpu=gpu)])
    [worker] = house.deployment("worker-fold-r1").spec.template.spec.containers
    assert {each.name: each.value for each in worker.env}["FOLDLINE_SHARE"] == f"{share:g}"


def test_a_deployment_of_the_release_before_gives_whole_cards(house: House) -> None:
    target = house.target(flavour="hami", cards_per_node=4)
    target.act([wants(1)])
    nothing = {"metadata": {"annotations": {"foldline.io/measured": None}}}
    client.AppsV1Api(house.api).patch_namespaced_deployment(
        "worker-fold-r1", house.namespace, nothing
    )
    assert target.act([wants(1, gpu=quarter())]).done == ()
    assert "nvidia.com/gpumem" not in limits(house)
