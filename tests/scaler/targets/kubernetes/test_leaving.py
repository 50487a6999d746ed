"""A worker that is to leave takes no more jobs, and goes when it has none."""

from __future__ import annotations

from scaler.targets.base import Wanted
from scaler.targets.kubernetes.cluster import LEAVES
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import House, revision, wants


def drains(workers: int, *names: str, model: str = "fold") -> Wanted:
    return Wanted(revision=revision(model), workers=workers, drains=names)


def marked(house: House, model: str = "fold") -> set[str]:
    return {
        pod["metadata"]["name"]
        for pod in house.kubelet.pods(model)
        if LEAVES in pod["metadata"]["annotations"]
    }


def phases(house: House) -> dict[str, str]:
    """Of those whose pods are not deleted."""
    there = house.kubelet.names("fold")
    return {each.name: each.phase for each in house.target().look().workers if each.name in there}


def test_a_busy_worker_that_is_drained_leaves_at_the_end_of_its_job(house: House) -> None:
    target = house.target()
    target.act([wants(2)])
    busy, other = sorted(house.kubelet.until_ready("fold", 2))
    house.busy.add(busy)
    target.act([drains(1, busy)])
    assert phases(house) == {busy: "ending", other: "ready"}
    assert house.replicas() == 2, "it still has its job"
    # The brain sees that it leaves, and orders nothing more.
    target.act([wants(1)])
    assert (house.replicas(), house.resumed) == (2, [])
    house.busy.clear()
    target.act([wants(1)])
    assert house.kubelet.until_ready("fold", 1) == {other}


def test_a_scaler_that_begins_in_mid_drain_carries_it_to_its_end(house: House) -> None:
    house.target().act([wants(1)])
    [busy] = house.kubelet.until_ready("fold", 1)
    house.busy.add(busy)
    house.target().act([drains(0, busy)])
    house.target().act([wants(0)])
    assert house.replicas() == 1
    house.busy.clear()
    house.target().act([wants(0)])
    assert house.replicas() == 0


def test_a_scaler_that_dies_before_the_worker_is_told_strands_nobody(
    house: House, stub_only: ApiStub
) -> None:
    """The mark is written first: without it nobody would know of a consumer that is cancelled."""
    target = house.target()
    target.act([wants(2)])
    first, other = sorted(house.kubelet.until_ready("fold", 2))
    with stub_only.trouble("PATCH .*/scale", status=500):
        target.act([wants(1, first)])
    assert (marked(house), house.replicas()) == ({first}, 2)
    house.target().act([wants(1)])
    assert house.kubelet.until_ready("fold", 1) == {other}


def test_a_drained_worker_counts_for_nothing_and_its_model_may_get_another(house: House) -> None:
    target = house.target()
    target.act([wants(1)])
    [busy] = house.kubelet.until_ready("fold", 1)
    house.busy.add(busy)
    target.act([drains(0, busy)])
    target.act([wants(1)])
    assert house.replicas() == 2
    new = house.kubelet.until_ready("fold", 2) - {busy}
    house.busy.clear()
    target.act([wants(1)])
    assert house.kubelet.until_ready("fold", 1) == new


def test_what_a_drained_worker_leaves_is_held_until_it_has_gone(house: House) -> None:
    target = house.target()
    target.act([wants(4), wants(0, model="dock")])
    busy = min(house.kubelet.until_ready("fold", 4))
    house.busy.add(busy)
    target.act([drains(3, busy), wants(1, model="dock")])
    assert house.replicas("worker-dock-r1") == 0
    house.busy.clear()
    target.act([wants(3), wants(1, model="dock")])
    house.kubelet.until(lambda: len(house.kubelet.pods("fold")) == 3)
    target.act([wants(3), wants(1, model="dock")])
    assert house.replicas("worker-dock-r1") == 1


def test_a_victim_leaves_while_another_is_drained(house: House) -> None:
    target = house.target()
    target.act([wants(3)])
    busy, idle, other = sorted(house.kubelet.until_ready("fold", 3))
    house.busy.add(busy)
    target.act([drains(2, busy)])
    target.act([wants(1, idle)])
    assert house.kubelet.until_ready("fold", 2) == {busy, other}
    assert phases(house) == {busy: "ending", other: "ready"}


def test_who_took_a_job_and_does_not_answer_again_leaves_at_its_end(house: House) -> None:
    target = house.target()
    target.act([wants(2)])
    victim, other = sorted(house.kubelet.until_ready("fold", 2))
    house.busy.add(victim)
    house.deaf.add(victim)
    target.act([wants(1, victim)])
    assert phases(house) == {victim: "ending", other: "ready"}
    house.busy.clear()
    target.act([wants(1)])
    assert house.kubelet.until_ready("fold", 1) == {other}


def test_a_worker_that_loads_is_not_taken_in_place_of_the_drained_one(house: House) -> None:
    target = house.target()
    target.act([wants(1)])
    [leaving] = house.kubelet.until_ready("fold", 1)
    house.busy.add(leaving)
    target.act([drains(0, leaving)])
    house.kubelet.loading.add("fold")
    target.act([wants(1)])
    house.kubelet.until(lambda: len(house.kubelet.names("fold")) == 2)
    house.kubelet.beat()
    both = house.kubelet.names("fold")
    house.busy.clear()
    target.act([wants(1)])
    assert house.kubelet.names("fold") == both, "a ReplicaSet would take the one that loads"
    house.kubelet.loading.clear()
    loaded = house.kubelet.until_ready("fold", 2) - {leaving}
    target.act([wants(1)])
    assert house.kubelet.until_ready("fold", 1) == loaded


def test_one_that_loads_is_drained_at_once(house: House) -> None:
    target = house.target()
    target.act([wants(1)])
    [ready] = house.kubelet.until_ready("fold", 1)
    house.kubelet.loading.add("fold")
    target.act([wants(2)])
    house.kubelet.until(lambda: len(house.kubelet.names("fold")) == 2)
    house.kubelet.beat()
    [loading] = house.kubelet.names("fold") - {ready}
    target.act([drains(1, loading)])
    assert house.kubelet.until_ready("fold", 1) == {ready}
    assert house.asked == []


def test_nobody_is_drained_where_none_is_too_many(house: House) -> None:
    """Somebody lowered the number by hand in the meantime."""
    target = house.target()
    target.act([wants(2)])
    names = sorted(house.kubelet.until_ready("fold", 2))
    target.act([drains(2, *names)])
    assert (house.replicas(), marked(house), house.asked) == (2, set(), [])


def test_while_it_cannot_be_read_only_those_go_who_were_told_before(house: House) -> None:
    target = house.target()
    target.act([wants(3)])
    told, other, third = sorted(house.kubelet.until_ready("fold", 3))
    house.busy.add(told)
    target.act([drains(2, told)])
    house.busy.clear()
    held = Wanted(revision=revision(), hold=True)
    target.act([held])
    assert house.kubelet.until_ready("fold", 2) == {other, third}
    house.kubelet.loading.add("fold")
    target.act([wants(3)])
    target.act([held])
    assert house.replicas() == 3, "also who loads stays"


def test_what_is_held_is_not_taken_for_a_stranger(house: House) -> None:
    target = house.target()
    target.act([wants(0)])
    report = target.act([Wanted(revision=revision(), hold=True)])
    assert report.problems == ()


def test_a_scale_in_under_way_is_not_made_up_for(house: House, stub_only: ApiStub) -> None:
    target = house.target()
    target.act([wants(2)])
    first, _ = sorted(house.kubelet.until_ready("fold", 2))
    stub_only.controllers_run = False
    target.act([wants(1, first)])
    target.act([wants(1)])
    assert house.replicas() == 1


def test_nobodys_number_is_lowered_while_the_mark_cannot_be_written(
    house: House, stub_only: ApiStub
) -> None:
    target = house.target()
    target.act([wants(1)])
    [name] = house.kubelet.until_ready("fold", 1)
    with stub_only.trouble("PATCH .*/pods/", status=403):
        target.act([drains(0, name)])
    assert (house.asked, house.replicas()) == ([], 1)
