from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from foldline.clock import database_now
from foldline.notify import endpoints, retention
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.notify.retention import clean
from foldline.notify.spreading import spread
from tests.foldline.notify.conftest import Register

pytestmark = pytest.mark.django_db

A = "https://a.example.com/"


@pytest.fixture
def made(register: Register, end_job: Callable[..., UUID]) -> list[Delivery]:
    register(A)
    for _ in range(4):
        end_job()
    spread()
    return list(Delivery.objects.order_by("id"))


def end(delivery: Delivery, *, days_ago: float) -> None:
    ended = database_now() - timedelta(days=days_ago)
    Delivery.objects.filter(pk=delivery.pk).update(state="delivered", ended_at=ended, next_at=None)


def test_what_ended_long_ago_goes_and_what_waits_never_does(made: list[Delivery]) -> None:
    old, recent, *waiting = made
    end(old, days_ago=31)
    end(recent, days_ago=29)
    Delivery.objects.update(created_at=database_now() - timedelta(days=99))
    assert clean(now=database_now()) == 1
    assert set(Delivery.objects.all()) == {recent, *waiting}


def test_a_round_is_bounded(made: list[Delivery], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "A_ROUND", 3)
    for each in made:
        end(each, days_ago=40)
    assert [clean(now=database_now()) for _ in range(3)] == [3, 1, 0]


def test_a_deleted_endpoint_goes_with_its_last_delivery(made: list[Delivery]) -> None:
    endpoints.delete(made[0].endpoint_id)
    now = database_now()
    clean(now=now)
    assert WebhookEndpoint.objects.exists()
    clean(now=now + timedelta(days=31))
    assert not WebhookEndpoint.objects.exists()
    assert not Delivery.objects.exists()
