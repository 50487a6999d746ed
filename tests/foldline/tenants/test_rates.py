from __future__ import annotations

import threading
import time
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from foldline.errors import QuotaExceeded
from foldline.tenants import rates
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.rates import Buckets, buckets, count_request

LAB = UUID(int=1)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    return clock


def taken(of: Buckets, *, times: int, per_minute: int = 60, tenant: UUID = LAB) -> int:
    return sum(of.take("x", tenant, per_minute=per_minute) == 0 for _ in range(times))


def test_a_minutes_worth_may_come_at_once(clock: Clock) -> None:
    assert taken(Buckets(), times=100, per_minute=60) == 60


def test_a_bucket_fills_evenly(clock: Clock) -> None:
    some = Buckets()
    taken(some, times=60)
    assert some.take("x", LAB, per_minute=60) == pytest.approx(1)
    clock.now += 10
    assert taken(some, times=100) == 10
    clock.now += 1000
    assert taken(some, times=100) == 60


def test_what_is_refused_takes_nothing(clock: Clock) -> None:
    some = Buckets()
    taken(some, times=1000)
    clock.now += 1
    assert taken(some, times=5) == 1


def test_tenants_and_kinds_have_buckets_of_their_own(clock: Clock) -> None:
    some = Buckets()
    taken(some, times=60)
    assert some.take("x", uuid4(), per_minute=60) == 0
    assert some.take("y", LAB, per_minute=60) == 0


def test_nought_is_never(clock: Clock) -> None:
    some = Buckets()
    assert some.take("x", LAB, per_minute=0) == 60


def test_a_limit_that_is_lowered_counts_what_was_taken(clock: Clock) -> None:
    some = Buckets()
    taken(some, times=60, per_minute=60)
    assert taken(some, times=10, per_minute=6) == 0
    clock.now += 20
    assert taken(some, times=10, per_minute=6) == 2


def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MOST_BUCKETS", 10)
    some = Buckets()
    for _ in range(50):
        some.take("x", uuid4(), per_minute=60)
        assert len(some._full_at) <= 10


def test_full_buckets_make_room_before_others_are_forgotten(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "MOST_BUCKETS", 10)
    some = Buckets()
    for _ in range(8):
        some.take("x", uuid4(), per_minute=60)
    clock.now += 2  # those are full again
    taken(some, times=60)
    for _ in range(3):
        some.take("x", uuid4(), per_minute=60)
    assert some.take("x", LAB, per_minute=60) > 0


def test_threads_together_take_no_more_than_there_is(clock: Clock) -> None:
    some, got = Buckets(), []

    def take() -> None:
        got.append(taken(some, times=200, per_minute=100))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(got) == 100


@pytest.mark.django_db
class TestCountRequest:
    def test_posts_and_other_requests_are_counted_apart(self, tenant: Tenant) -> None:
        Quota.objects.create(tenant=tenant, requests_per_minute=1, polls_per_minute=2)
        count_request(tenant.pk, method="POST")
        count_request(tenant.pk, method="GET")
        count_request(tenant.pk, method="HEAD")
        for method, name in (("POST", "requests_per_minute"), ("GET", "polls_per_minute")):
            with pytest.raises(QuotaExceeded) as refused:
                count_request(tenant.pk, method=method)
            assert refused.value.extra["limit"]["name"] == name

    def test_without_a_limit_nothing_is_counted(self, tenant: Tenant) -> None:
        for method in ("POST", "GET"):
            count_request(tenant.pk, method=method)
        assert not any(key[1] == tenant.pk for key in buckets._full_at)

    @pytest.mark.usefixtures("clock_stands_still")
    def test_a_refusal_asks_the_database_nothing(
        self, tenant: Tenant, django_assert_num_queries: Callable[..., object]
    ) -> None:
        Quota.objects.create(tenant=tenant, requests_per_minute=0)
        with pytest.raises(QuotaExceeded):
            count_request(tenant.pk, method="POST")
        with django_assert_num_queries(0), pytest.raises(QuotaExceeded):  # type: ignore[attr-defined]  # a context manager
            count_request(tenant.pk, method="POST")

    @pytest.mark.usefixtures("clock")
    @pytest.mark.parametrize("step_s", [-86_400, 86_400])
    def test_a_step_of_the_wall_clock_changes_nothing(
        self, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, step_s: int
    ) -> None:
        wall = time.time
        Quota.objects.create(tenant=tenant, requests_per_minute=3)
        count_request(tenant.pk, method="POST")
        monkeypatch.setattr("time.time", lambda: wall() + step_s)
        monkeypatch.setattr("time.time_ns", lambda: int((wall() + step_s) * 1e9))
        count_request(tenant.pk, method="POST")
        count_request(tenant.pk, method="POST")
        with pytest.raises(QuotaExceeded) as refused:
            count_request(tenant.pk, method="POST")
        assert refused.value.retry_after_s is not None
        assert 1 <= refused.value.retry_after_s <= 20
