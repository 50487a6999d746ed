"""Two scalers never both lead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

import pytest

from scaler.targets.kubernetes.elector import LEASE, Elector, steady_now
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import Clock, House
from tests.worker_process import wait_until

WITHIN_S = 10.0


class MakeElector(Protocol):
    def __call__(self, identity: str, *, clock: Clock | None = None) -> Elector: ...


@pytest.fixture
def elector(house: House) -> Iterator[MakeElector]:
    """Electors that lead for 0.6 s, of a lease of 1 s. Those that were started are ended."""
    made: list[Elector] = []

    def make(identity: str, *, clock: Clock | None = None) -> Elector:
        new = Elector(
            house.door(timeout_s=0.3),
            identity=identity,
            duration_s=1,
            renew_s=0.6,
            retry_s=0.05,
            clock=clock or steady_now,
        )
        made.append(new)
        return new

    yield make
    for each in made:
        each.end()


def until(what: Elector, *, leads: bool = True) -> None:
    deadline = time.monotonic() + WITHIN_S
    while (what.leads_for_s() > 0) != leads:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_one_leads_and_the_other_waits(elector: MakeElector) -> None:
    first, second = elector("a"), elector("b")
    first.step()
    second.step()
    assert first.leads_for_s() > 0
    assert second.leads_for_s() == 0


def test_who_leaves_gives_the_lease_back_at_once(elector: MakeElector) -> None:
    first, second = elector("a"), elector("b")
    first.step()
    first.end()
    second.step()
    assert first.leads_for_s() == 0
    assert second.leads_for_s() > 0


def test_a_leader_that_falls_silent_is_followed_only_after_it_has_stopped(
    elector: MakeElector,
) -> None:
    clock = Clock()
    first, second = elector("a", clock=clock), elector("b", clock=clock)
    first.step()
    second.step()
    clock.now += 0.59
    assert first.leads_for_s() > 0
    clock.now += 0.4
    second.step()
    assert (first.leads_for_s(), second.leads_for_s()) == (0, 0)
    clock.now += 0.02
    second.step()
    assert second.leads_for_s() > 0


def test_a_follower_counts_from_when_it_saw_the_lease_change(
    elector: MakeElector, house: House
) -> None:
    """Not from the time written in it: the writer's clock may be an hour behind."""
    first, second = elector("a"), elector("b")
    first.step()
    door = house.door()
    lease = door.lease(LEASE)
    lease["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"
    door.replace_lease(lease)
    second.step()
    assert second.leads_for_s() == 0


def test_a_leader_counts_from_before_it_asked(
    elector: MakeElector, house: House, stub_only: ApiStub
) -> None:
    clock = Clock()
    first = elector("a", clock=clock)

    def slow(_store: object) -> None:
        clock.now += 0.5

    with stub_only.trouble("POST .*/leases", before=slow):
        first.step()
    assert first.leads_for_s() == pytest.approx(0.1)


def test_of_two_who_take_it_at_once_one_gets_it(elector: MakeElector, stub_only: ApiStub) -> None:
    clock = Clock()
    old = elector("old", clock=clock)
    first, second = elector("a", clock=clock), elector("b", clock=clock)
    old.step()
    first.step()
    second.step()
    clock.now += 2
    with stub_only.trouble("PUT .*/leases", times=1, before=lambda _store: second.step()):
        first.step()
    assert second.leads_for_s() > 0
    assert first.leads_for_s() == 0


def test_they_never_both_lead_while_the_server_freezes_and_thaws(
    elector: MakeElector, stub_only: ApiStub
) -> None:
    first, second = elector("a"), elector("b")
    first.start()
    until(first)
    second.start()
    both = 0

    def watch(seconds: float) -> None:
        nonlocal both
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            both += first.leads_for_s() > 0 and second.leads_for_s() > 0
            time.sleep(0.002)

    with stub_only.frozen():
        until(first, leads=False)
        watch(0.6)
        assert second.leads_for_s() == 0
    watch(1.5)
    assert first.leads_for_s() > 0 or second.leads_for_s() > 0
    assert both == 0


def test_a_crashed_leader_is_followed(elector: MakeElector) -> None:
    first, second = elector("a"), elector("b")
    first.step()
    second.start()
    until(second)
    assert first.leads_for_s() == 0


def test_a_few_failures_do_not_end_a_lead(elector: MakeElector, stub_only: ApiStub) -> None:
    first = elector("a")
    first.start()
    until(first)
    with (
        stub_only.trouble("leases", times=2, status=500) as errors,
        stub_only.trouble("leases", times=1, hang_up=True) as hung_up,
    ):
        deadline = time.monotonic() + WITHIN_S
        while errors.times or hung_up.times:
            assert first.leads_for_s() > 0
            assert time.monotonic() < deadline
            time.sleep(0.005)
    assert first.leads_for_s() > 0


def test_a_lease_of_a_deposed_leader_is_not_given_back_by_it(
    elector: MakeElector, house: House
) -> None:
    first = elector("a", clock=Clock())
    first.step()
    door = house.door()
    lease = door.lease(LEASE)
    lease["spec"]["holderIdentity"] = "b"
    door.replace_lease(lease)
    first.end()
    assert door.lease(LEASE)["spec"]["holderIdentity"] == "b"


def test_a_leader_whose_work_hangs_lets_the_lease_go(house: House) -> None:
    clock, well = Clock(), True
    first = Elector(house.door(), clock=clock, well=lambda: well)
    first.step()
    assert first.leads_for_s() == 10
    well = False
    clock.now += 10
    first.step()
    assert first.leads_for_s() == 0


def test_a_lease_that_says_nonsense_ends_no_elector(
    house: House, elector: MakeElector, stub_only: ApiStub
) -> None:
    """Else its scaler would never lead again, and nobody would know why."""
    nonsense = {"holderIdentity": "another", "leaseDurationSeconds": "soon"}
    lease = {"metadata": {"name": LEASE}, "spec": nonsense}
    made = stub_only.store.create("leases", house.namespace, lease)
    first = elector("a")
    first.start()
    asked = len(stub_only.calls)
    wait_until(lambda: len(stub_only.calls) >= asked + 2)
    stub_only.store.drop("leases", made)
    until(first)


def test_its_clock_goes_on_while_the_machine_sleeps_and_never_steps() -> None:
    assert steady_now() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=1)


def test_impossible_times_are_refused(house: House) -> None:
    with pytest.raises(ValueError, match="must outlast"):
        Elector(house.door(), duration_s=10, renew_s=10)
