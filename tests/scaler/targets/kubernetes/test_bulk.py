"""The lane `bulk`: a Job for each worker that was awarded, and no more."""

from __future__ import annotations

import pytest

from scaler.targets.kubernetes.cluster import LEAVES, WORKERS
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import House, bulk, wants


def jobs(house: House) -> list[str]:
    return sorted(each["metadata"]["name"] for each in house.door().jobs(WORKERS))


def finish(house: House, name: str) -> None:
    """The worker in this pod has left."""
    house.kubelet.say(name, ready=False, phase="Succeeded")
    house.kubelet.until(lambda: all("conditions" in each["status"] for each in ended(house)))


def ended(house: House) -> list[dict[str, dict[str, object]]]:
    return [each for each in house.door().jobs(WORKERS) if each.get("status")]


@pytest.mark.parametrize("how", ["act", "tend"])
def test_no_more_are_made_than_were_awarded(house: House, how: str) -> None:
    """Four cards are there, and what is left of them may be kept for others."""
    act = getattr(house.target(), how)
    act([bulk(1, "1", "2", "3")])
    assert jobs(house) == ["job-1"]
    act([bulk(1, "1", "2", "3")])
    assert jobs(house) == ["job-1"]
    act([bulk(2, "1", "2", "3")])
    assert jobs(house) == ["job-1", "job-2"]


def test_one_without_a_pod_counts(house: House, stub_only: ApiStub) -> None:
    """Those who decide see pods only, and ask for it once more."""
    target = house.target()
    stub_only.controllers_run = False
    target.act([bulk(1, "1", "2")])
    target.act([bulk(1, "1", "2")])
    assert jobs(house) == ["job-1"]


def test_one_that_has_ended_stands_for_no_job(house: House) -> None:
    """Its worker took another job, or none: the order is a fair one, and jobs come and go."""
    target = house.target()
    target.act([bulk(1, "1")])
    [name] = house.kubelet.until_ready("fold", 1)
    finish(house, name)
    target.act([bulk(1, "1")])
    assert jobs(house) == ["job-1", "job-1-2"]
    target.act([bulk(1, "1")])
    assert jobs(house) == ["job-1", "job-1-2"]


def test_one_that_ends_between_the_look_and_the_act_is_not_followed_at_once(house: House) -> None:
    """Its worker was awarded as one that stays; whether there is work for another is not known."""
    target = house.target()
    target.act([bulk(1, "1")])
    [name] = house.kubelet.until_ready("fold", 1)
    target.look()
    finish(house, name)
    target.act([bulk(1, "2", "1")])
    assert jobs(house) == ["job-1"]
    target.look()
    target.act([bulk(1, "2")])
    assert jobs(house) == ["job-1", "job-2"]


def test_who_is_to_leave_is_marked_once_and_leaves_with_its_job(
    house: House, stub_only: ApiStub
) -> None:
    target = house.target()
    target.act([bulk(1, "1")])
    [name] = house.kubelet.until_ready("fold", 1)
    report = target.act([bulk(0, drains=(name,))])
    assert report.done == (f"{name} leaves with its job",)
    [worker] = target.look().workers
    assert worker.phase == "ending"
    stub_only.calls.clear()
    report = target.act([bulk(0, drains=(name,))])
    assert report.done == ()
    assert {call.split()[0] for call in stub_only.calls} == {"GET"}
    assert house.asked == [], "it is busy, and takes no other job anyway"


def test_another_may_come_beside_one_that_is_to_leave(house: House) -> None:
    target = house.target()
    target.act([bulk(1, "1")])
    [name] = house.kubelet.until_ready("fold", 1)
    target.act([bulk(0, "1", drains=(name,))])
    target.act([bulk(1, "1", "2")])
    assert jobs(house) == ["job-1", "job-2"]


def test_nobody_of_another_revision_is_marked(house: House) -> None:
    target = house.target()
    target.act([bulk(1, "1"), wants(1, model="dock")])
    [other] = house.kubelet.until_ready("dock", 1)
    target.act([bulk(1, "1", drains=(other, "nobody")), wants(1, model="dock")])
    assert all(LEAVES not in each["metadata"]["annotations"] for each in house.kubelet.pods())


def test_what_follows_one_that_is_ending_takes_its_card_and_no_other(
    house: House, stub_only: ApiStub
) -> None:
    """A Job's next pod comes when the one before has gone."""
    target = house.target()
    target.act([bulk(1, "1")])
    [name] = house.kubelet.until_ready("fold", 1)
    house.kubelet.lasting.add("fold")
    house.kubelet.core.delete_namespaced_pod(name, house.namespace)
    target.act([bulk(1, "1"), wants(3, model="dock")])
    assert house.replicas("worker-dock-r1") == 3
    assert jobs(house) == ["job-1"]


def test_one_that_kueue_suspends_has_not_ended(house: House, stub_only: ApiStub) -> None:
    target = house.target()
    stub_only.controllers_run = False
    target.act([bulk(1, "1", "2")])
    [made] = stub_only.store.all("jobs")
    made["status"] = {"conditions": [{"type": "Suspended", "status": "True"}]}
    target.act([bulk(1, "1", "2"), wants(4, model="dock")])
    assert jobs(house) == ["job-1"]
    assert house.replicas("worker-dock-r1") == 3, "it keeps its room"
