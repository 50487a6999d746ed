"""Two scalers never both lead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import pytest

from scaler.targets.kubernetes.elector import LEASE, Elector, steady_now
from scaler.targets.kubernetes.faults import Fault
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import Clock, House
from tests.worker_process import wait_until


class MakeElector(Protocol):
    def __call__(self, identity: str, *, clock: Callable[[], float] = ...) -> Elector: ...


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def elector(house: House, clock: Clock) -> Iterator[MakeElector]:
    """Electors that lead for 0.6 s, of a lease of 1 s, by a clock that the test winds on or by the
    real one. Those that were started are ended."""
    made: list[Elector] = []

    def make(identity: str, *, clock: Callable[[], float] = clock) -> Elector:
        new = Elector(
            house.door(timeout_s=0.3) if clock is steady_now else house.door(),
            identity=identity,
            duration_s=1,
            renew_s=0.6,
            retry_s=0.05,
            clock=clock,
        )
        made.append(new)
        return new

    yield make
    for each in made:
        each.end()


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
    elector: MakeElector, clock: Clock
) -> None:
    first, second = elector("a"), elector("b")
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
    elector: MakeElector, clock: Clock, stub_only: ApiStub
) -> None:
    first = elector("a")

    def slow(_store: object) -> None:
        clock.now += 0.5

    with stub_only.trouble("POST .*/leases", before=slow):
        first.step()
    assert first.leads_for_s() == pytest.approx(0.1)


def test_of_two_who_take_it_at_once_one_gets_it(
    elector: MakeElector, clock: Clock, stub_only: ApiStub
) -> None:
    old, first, second = elector("old"), elector("a"), elector("b")
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
    first, second = (elector(identity, clock=steady_now) for identity in "ab")
    first.start()
    wait_until(lambda: first.leads_for_s() > 0)
    second.start()

    def leads_alone(one: Elector, other: Elector) -> bool:
        """They cannot be asked at the same moment: what counts is the time that one was told."""
        asked, left_s = steady_now(), one.leads_for_s()
        assert other.leads_for_s() == 0 or steady_now() >= asked + left_s, "both lead"
        return left_s > 0

    def somebody_leads() -> bool:
        return any([leads_alone(first, second), leads_alone(second, first)])

    with stub_only.frozen():
        wait_until(lambda: not somebody_leads())
        later = steady_now() + 0.6
        while steady_now() < later:
            assert not somebody_leads()
            time.sleep(0.01)
    later = steady_now() + 1.5
    wait_until(lambda: somebody_leads() and steady_now() > later)


def test_a_crashed_leader_is_followed(elector: MakeElector) -> None:
    first, second = (elector(identity, clock=steady_now) for identity in "ab")

    def takes_it() -> bool:
        with suppress(Fault):
            first.step()
        return first.leads_for_s() > 0

    wait_until(takes_it)
    second.start()
    wait_until(lambda: second.leads_for_s() > 0)
    assert first.leads_for_s() == 0


@pytest.mark.parametrize("trouble", [{"status": 500}, {"hang_up": True}], ids=str)
def test_a_few_failures_do_not_end_a_lead(
    elector: MakeElector, clock: Clock, stub_only: ApiStub, trouble: dict[str, Any]
) -> None:
    first = elector("a")
    first.step()
    with stub_only.trouble("leases", times=3, **trouble):
        for _ in range(3):
            clock.now += 0.19
            with pytest.raises(Fault):
                first.step()
            assert first.leads_for_s() > 0
    first.step()
    assert first.leads_for_s() == pytest.approx(0.6)


def test_a_lease_of_a_deposed_leader_is_not_given_back_by_it(
    elector: MakeElector, house: House
) -> None:
    first = elector("a")
    first.step()
    door = house.door()
    lease = door.lease(LEASE)
    lease["spec"]["holderIdentity"] = "b"
    door.replace_lease(lease)
    first.end()
    assert door.lease(LEASE)["spec"]["holderIdentity"] == "b"


def test_a_leader_whose_work_hangs_lets_the_lease_go(house: House, clock: Clock) -> None:
    well = True
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
    wait_until(lambda: first.leads_for_s() > 0)


def test_its_clock_goes_on_while_the_machine_sleeps_and_never_steps() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= steady_now() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_impossible_times_are_refused(house: House) -> None:
    with pytest.raises(ValueError, match="must outlast"):
        Elector(house.door(), duration_s=10, renew_s=10)
