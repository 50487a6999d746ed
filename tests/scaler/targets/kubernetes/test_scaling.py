"""Workers come and go as wanted, and no job is lost by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kubernetes import client

from scaler.targets.base import GpuRequest
from tests.scaler.targets.kubernetes.api_objects import COST
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import (
    House,
    MakeHouse,
    bulk,
    hami,
    quarter,
    wants,
    words,
)


def test_a_live_revision_has_a_deployment_that_is_born_without_workers(house: House) -> None:
    report = house.target().act([wants(0)])
    assert house.replicas() == 0
    assert report.problems == ()
    assert report.done == ("fold@r1: a Deployment without workers was made",)


def test_where_somebody_else_scales_it_only_keeps_the_deployments(house: House) -> None:
    target = house.target()
    target.tend([wants(3)])
    client.AppsV1Api(house.api).patch_namespaced_deployment_scale(
        "worker-fold-r1", house.namespace, {"spec": {"replicas": 2}}
    )
    house.kubelet.until_ready("fold", 2)
    target.tend([wants(0), wants(1, model="dock")])
    assert (house.replicas(), house.replicas("worker-dock-r1")) == (2, 0)


def test_as_many_workers_come_as_are_wanted(house: House) -> None:
    target = house.target()
    report = target.act([wants(3)])
    names = house.kubelet.until_ready("fold", 3)
    seen = target.look()
    assert {(each.name, each.phase) for each in seen.workers} == {(name, "ready") for name in names}
    assert len({each.cards for each in seen.workers}) == 3
    assert "fold@r1: 0 → 3 workers" in report.done


def test_a_steady_state_writes_nothing(house: House, stub_only: ApiStub) -> None:
    target = house.target()
    target.act([wants(2)])
    house.kubelet.until_ready("fold", 2)
    stub_only.calls.clear()
    assert target.act([wants(2)]).done == ()
    assert {call.split()[0] for call in stub_only.calls} == {"GET"}


def test_no_worker_comes_for_which_there_is_no_card(house: House) -> None:
    report = house.target().act([wants(3), wants(3, model="dock")])
    assert (house.replicas(), house.replicas("worker-dock-r1")) == (3, 1)
    assert "dock@r1 waits for room for 2 more workers: 4 cards are there" in words(report.problems)


def test_a_pod_that_is_ending_still_holds_its_card(house: House) -> None:
    target = house.target()
    target.act([wants(4)])
    names = house.kubelet.until_ready("fold", 4)
    house.kubelet.lasting.add("fold")
    orders = [wants(0, *names), wants(2, model="dock")]
    report = target.act(orders)
    assert "of which 4 are ending" in words(report.problems)
    assert (house.replicas(), house.replicas("worker-dock-r1")) == (0, 0)
    assert {each.phase for each in target.look().workers} == {"ending"}
    house.kubelet.lasting.clear()
    house.kubelet.until(lambda: not house.kubelet.pods())
    target.act(orders)
    assert house.replicas("worker-dock-r1") == 2


def test_those_who_leave_go_before_those_who_come(house: House, stub_only: ApiStub) -> None:
    target = house.target()
    target.act([wants(2), wants(0, model="dock")])
    names = house.kubelet.until_ready("fold", 2)
    stub_only.calls.clear()
    target.act([wants(2, model="dock"), wants(0, *names)])
    scaled = [call for call in stub_only.calls if call.endswith("/scale")]
    assert [call.split("/")[-2] for call in scaled] == ["worker-fold-r1", "worker-dock-r1"]


def test_pods_that_are_ordered_and_not_made_yet_keep_their_room(
    house: House, stub_only: ApiStub
) -> None:
    target = house.target()
    target.act([wants(0), wants(0, model="dock")])
    stub_only.controllers_run = False
    target.act([wants(2)])
    target.act([bulk(1, "1", model="big")])
    report = target.act([wants(2), wants(4, model="dock")])
    assert house.replicas("worker-dock-r1") == 1
    assert "waits for room for 3 more" in words(report.problems)


def test_a_scale_in_that_is_under_way_is_let_end_before_the_next(
    house: House, stub_only: ApiStub
) -> None:
    target = house.target()
    target.act([wants(3)])
    first, second, third = sorted(house.kubelet.until_ready("fold", 3))
    stub_only.controllers_run = False
    target.act([wants(2, first)])
    stub_only.calls.clear()
    target.act([wants(1, second)])
    assert {call.split()[0] for call in stub_only.calls} == {"GET"}
    stub_only.controllers_run = True
    assert house.kubelet.until_ready("fold", 2) == {second, third}
    target.act([wants(1, second)])
    assert house.kubelet.until_ready("fold", 1) == {third}


def test_a_scale_in_waits_until_the_costs_have_reached_the_controller(
    house: House, stub_only: ApiStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = house.target(settle_s=0.5)
    target.act([wants(2)])
    names = house.kubelet.until_ready("fold", 2)
    stub_only.calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr("scaler.targets.kubernetes.leaving.time.sleep", _noted(stub_only))
        target.act([wants(1, min(names))])
    writes = [call.split("/")[-1] for call in stub_only.calls if not call.startswith("GET")]
    assert writes == [min(names), min(names), "slept 0.5", "scale", "events"]


def _noted(stub: ApiStub) -> Callable[[float], None]:
    return lambda seconds: stub.calls.append(f"/slept {seconds}")


def test_exactly_the_victims_leave(house: House) -> None:
    target = house.target()
    target.act([wants(4)])
    names = sorted(house.kubelet.until_ready("fold", 4))
    victims = {names[1], names[3]}
    report = target.act([wants(2, *victims)])
    assert house.kubelet.until_ready("fold", 2) == set(names) - victims
    assert "fold@r1: 4 → 2 workers" in report.done
    assert set(house.asked) == victims


def test_a_victim_that_took_a_job_in_the_meantime_stays(house: House) -> None:
    target = house.target()
    target.act([wants(3)])
    busy, idle, other = sorted(house.kubelet.until_ready("fold", 3))
    house.busy.add(busy)
    target.act([wants(1, busy, idle)])
    assert house.kubelet.until_ready("fold", 2) == {busy, other}
    assert house.replicas() == 2


def test_nobody_leaves_who_was_not_chosen(house: House) -> None:
    target = house.target()
    target.act([wants(3)])
    house.kubelet.until_ready("fold", 3)
    target.act([wants(0)])
    assert house.replicas() == 3


def test_who_is_not_loaded_yet_leaves_before_anybody_who_is(house: House) -> None:
    target = house.target()
    target.act([wants(2)])
    loaded = house.kubelet.until_ready("fold", 2)
    house.kubelet.loading.add("fold")
    target.act([wants(4)])
    house.kubelet.until(lambda: len(house.kubelet.names("fold")) == 4)
    house.kubelet.beat()
    target.act([wants(2, *loaded)])
    assert house.kubelet.until_ready("fold", 2) == loaded
    assert house.asked == []


def test_a_cost_of_an_earlier_scale_in_is_taken_back(house: House) -> None:
    target = house.target()
    target.act([wants(3)])
    first, second, third = sorted(house.kubelet.until_ready("fold", 3))
    house.kubelet.core.patch_namespaced_pod(
        third, house.namespace, {"metadata": {"annotations": {COST: "-1000"}}}
    )
    target.act([wants(2, first)])
    assert house.kubelet.until_ready("fold", 2) == {second, third}
    costs = {
        pod["metadata"]["name"]: pod["metadata"]["annotations"].get(COST)
        for pod in house.kubelet.pods("fold")
    }
    assert (costs[second], costs[third]) == (None, None)


def test_a_number_that_somebody_changed_meanwhile_is_read_again(
    house: House, stub_only: ApiStub
) -> None:
    target = house.target()
    target.act([wants(1)])
    house.kubelet.until_ready("fold", 1)

    def by_hand(store: object) -> None:
        found = stub_only.store.get("deployments", house.namespace, "worker-fold-r1")
        found["spec"]["replicas"] = 2
        stub_only.store.put("deployments", found)

    with stub_only.trouble("PATCH .*/scale", times=1, before=by_hand):
        report = target.act([wants(3)])
    assert house.replicas() == 3
    assert report.done == ("fold@r1: 2 → 3 workers",)


def test_a_victim_is_chosen_again_when_the_number_changed_meanwhile(
    house: House, stub_only: ApiStub
) -> None:
    target = house.target()
    target.act([wants(3)])
    names = sorted(house.kubelet.until_ready("fold", 3))

    def by_hand(store: object) -> None:
        found = stub_only.store.get("deployments", house.namespace, "worker-fold-r1")
        found["spec"]["replicas"] = 4
        stub_only.store.put("deployments", found)

    with stub_only.trouble("PATCH .*/scale", times=1, before=by_hand):
        target.act([wants(2, names[0])])
    # The fourth, which serves nobody yet, and the victim.
    assert house.kubelet.until_ready("fold", 2) == set(names[1:])


def test_who_is_always_outrun_holds_and_says_so(house: House, stub_only: ApiStub) -> None:
    with stub_only.trouble("PATCH .*/scale", status=409):
        report = house.target().act([wants(1)])
    assert "fold@r1 is held as it is: somebody else changes it" in words(report.problems)
    assert house.replicas() == 0


def test_shares_fill_a_used_card_before_a_free_one(make_house: MakeHouse) -> None:
    house = make_house(cards=20, annotations=hami("card-a", "card-b"))
    target = house.target(flavour="hami")
    order = wants(5, model="embed", gpu=quarter())
    target.act([order])
    assert house.replicas("worker-embed-r1") == 5
    report = target.act([order, wants(1)])
    assert house.replicas() == 0
    assert "2 cards are there, and 5 workers hold them" in words(report.problems)
    target.act([order, wants(4, model="small", gpu=quarter())])
    assert house.replicas("worker-small-r1") == 3


@pytest.mark.usefixtures("stub_only")  # a real server would need HAMi's scheduler
def test_the_card_that_hami_gave_is_the_one_that_is_held(make_house: MakeHouse) -> None:
    house = make_house(cards=20, annotations=hami("card-a", "card-b"))
    target = house.target(flavour="hami")
    target.act([wants(1, gpu=quarter())])
    [name] = house.kubelet.until_ready("fold", 1)
    given = {"hami.io/vgpu-devices-allocated": "card-b,NVIDIA,20000,25:;"}
    house.kubelet.core.patch_namespaced_pod(
        name, house.namespace, {"metadata": {"annotations": given}}
    )
    [worker] = target.look().workers
    assert (worker.cards, worker.share) == (("card-b",), 0.25)


def test_a_model_of_two_cards_gets_both_on_one_node(house: House) -> None:
    house.kubelet.add_node(cards=1)
    report = house.target().act([wants(3, gpu=GpuRequest(cards=2))])
    assert house.replicas() == 2
    assert "waits for room for 1 more" in words(report.problems)


def test_a_deployment_that_another_scaler_made_meanwhile_is_taken_as_it_is(
    house: House, stub_only: ApiStub
) -> None:
    other = house.target()
    match = "POST .*/deployments"
    with stub_only.trouble(match, times=1, before=lambda _store: other.act([wants(0)])):
        report = house.target().act([wants(2)])
    assert report.problems == ()
    assert house.replicas() == 2


def test_a_bulk_job_gets_a_worker_of_its_own_and_only_one(house: House) -> None:
    target = house.target()
    order = bulk(2, "0190aaaa", "0190bbbb")
    first, second = target.act([order]), target.act([order])
    batch = client.BatchV1Api(house.api)
    jobs = batch.list_namespaced_job(house.namespace).items
    assert {job.metadata.name for job in jobs} == {"job-0190aaaa", "job-0190bbbb"}
    assert len(first.done) == 2
    assert second.done == ()
    command = jobs[0].spec.template.spec.containers[0].command
    assert command == ["python", "-m", "tasks.worker", "fold@r1", "--once"]


def test_bulk_jobs_wait_for_room_and_hold_it(house: House) -> None:
    target = house.target()
    target.act([wants(3, model="dock")])
    report = target.act([bulk(2, "1", "2")])
    assert len(report.done) == 1
    assert "waits for room for 1 more" in words(report.problems)
    house.kubelet.until_ready("fold", 1)
    held = [each for each in target.look().workers if each.revision == "fold@r1"]
    assert [each.phase for each in held] == ["ready"]


def test_a_job_that_was_sent_is_not_sent_again(house: House, stub_only: ApiStub) -> None:
    target = house.target()
    order = bulk(1, "1")
    target.act([order])
    stub_only.calls.clear()
    target.act([order])
    assert {call.split()[0] for call in stub_only.calls} == {"GET"}


def test_a_job_that_another_scaler_sent_is_no_trouble(house: House, stub_only: ApiStub) -> None:
    with stub_only.trouble("POST .*/jobs", status=409):
        report = house.target().act([bulk(1, "1")])
    assert report.problems == ()


def test_what_was_done_is_told_as_an_event(house: House) -> None:
    house.target().act([wants(2)])
    events = client.EventsV1Api(house.api).list_namespaced_event(house.namespace).items
    told = [each for each in events if each.reporting_controller == "foldline.io/scaler"]
    assert [(each.reason, each.note) for each in told] == [("ScaledOut", "fold@r1: 0 → 2 workers")]
    assert told[0].regarding.name == "worker-fold-r1"


def test_new_settings_reach_the_workers_one_after_another(house: House) -> None:
    target = house.target()
    target.act([wants(2)])
    before = house.kubelet.until_ready("fold", 2)
    house.kubelet.lasting.add("fold")
    report = target.act([wants(2, image="worker:2")])
    assert report.done == ("fold@r1: new settings reach its workers one after another",)
    house.kubelet.until(lambda: house.kubelet.names("fold", ending=True))
    assert len(house.kubelet.names("fold", ending=True)) == 1
    house.kubelet.lasting.clear()
    house.kubelet.until(lambda: not before & house.kubelet.names("fold"))
    assert house.replicas() == 2


@pytest.mark.parametrize("flavour", ["whole", "hami", "mig", "time-sliced", "mps"])
def test_a_deployment_is_accepted_and_left_alone_in_every_flavour(
    house: House, flavour: str
) -> None:
    target = house.target(flavour=flavour, cards_per_node=1)
    target.act([wants(0, gpu=quarter())])
    report = target.act([wants(0, gpu=quarter())])
    assert report.done == ()
    assert "edited by hand" not in words(report.problems)
