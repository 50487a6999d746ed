"""What a worker tells of itself, and how what it held adds up once it has gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db.models import Sum
from django.test import Client

from foldline.catalog.models import Model, Revision
from foldline.clock import database_now, day_of
from foldline.fleet import accounts, services
from foldline.fleet.accounts import held_now, paid_by_day
from foldline.fleet.models import Worker
from foldline.tenants.ledger import Kind, post
from foldline.tenants.models import LedgerLine, Tenant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_day")]
PAGE = "/admin/fleet/worker/"
SLOW_S = 20.0
"""What a test may take."""


@pytest.fixture
def worker(live_revision: Callable[..., Revision]) -> UUID:
    """It has lived for 200 seconds with half a card and loaded in 20."""
    revision = live_revision()
    Model.objects.update(price=Decimal("0.5"))
    worker_id = services.register(name="w1", revision_id=revision.id, node="n", pid=1)
    services.report(worker_id, state="ready", load_seconds={"weights": 5, "total": 20})
    older(200)
    Worker.objects.update(share=0.5)
    return worker_id


def older(seconds: float) -> None:
    """Let the workers have begun that much earlier."""
    for worker in Worker.objects.all():
        began = worker.started_at - timedelta(seconds=seconds)
        Worker.objects.filter(pk=worker.pk).update(started_at=began)


def silent(seconds: float) -> None:
    Worker.objects.update(last_seen=database_now() - timedelta(seconds=seconds))


def used(kind: Kind, seconds: float, *, worker: str = "w1", tenant: Tenant | None = None) -> None:
    line = LedgerLine(
        at=database_now(), kind=kind, model="toy", worker=worker, gpu_seconds=seconds,
        tenant_id=tenant.id if tenant else None,
    )  # fmt: skip
    post([line])


def held(worker: str = "w1") -> dict[str, float]:
    lines = LedgerLine.objects.filter(worker=worker).order_by()
    return dict(lines.values_list("kind").annotate(Sum("gpu_seconds")))


def paid_of(worker_id: UUID, *, until: datetime | None = None) -> float:
    row = Worker.objects.get(id=worker_id)
    return ((until or row.last_seen) - row.started_at).total_seconds() * row.share


class TestAWorkerThatLeaves:
    def test_leaves_lines_that_add_up_to_what_was_paid(self, worker: UUID) -> None:
        used(Kind.COMPUTE, 40)
        used(Kind.WASTED, 10)
        services.report(worker, state="gone", current_job=None)
        assert held() == {
            "cold_start": pytest.approx(10),
            "compute": 40,
            "wasted": 10,
            "idle": pytest.approx(paid_of(worker) - 60),
        }
        assert sum(held().values()) == pytest.approx(paid_of(worker), abs=1e-6)

    def test_has_lines_of_nobody_at_the_price_of_its_model(self, worker: UUID) -> None:
        services.report(worker, state="gone")
        line = LedgerLine.objects.get(kind="cold_start")
        assert (line.tenant_id, line.tenant, line.session) == (None, "", "")
        assert (line.model, line.cost) == ("toy", Decimal("5.000000"))

    def test_without_having_loaded_spent_all_of_it_on_the_start(self, worker: UUID) -> None:
        Worker.objects.update(load_seconds={})
        services.report(worker, state="gone", failure={"code": "load_failed", "message": "."})
        assert held() == {"cold_start": pytest.approx(paid_of(worker))}

    def test_posts_nothing_before_that(self, worker: UUID) -> None:
        services.report(worker, state="busy")
        services.report(worker)
        assert held() == {}

    def test_twice_is_settled_once(self, worker: UUID) -> None:
        services.report(worker, state="gone")
        services.report(worker, state="gone")
        assert held() == {"cold_start": 10, "idle": pytest.approx(paid_of(worker) - 10)}


class TestAWorkerThatFallsSilent:
    def test_is_paid_until_it_was_last_heard_of(self, worker: UUID) -> None:
        silent(60)
        assert services.bury_silent_workers(before=database_now() - timedelta(seconds=30)) == 1
        assert held() == {"cold_start": 10, "idle": pytest.approx(paid_of(worker) - 10)}
        assert paid_of(worker) == pytest.approx(140 / 2, abs=SLOW_S)

    def test_or_until_its_last_attempt_was_closed(self, worker: UUID) -> None:
        silent(60)
        used(Kind.WASTED, 50)
        services.bury_silent_workers(before=database_now() - timedelta(seconds=30))
        last = LedgerLine.objects.get(kind=Kind.WASTED)
        assert sum(held().values()) == pytest.approx(paid_of(worker, until=last.at))

    def test_and_is_heard_of_in_time_is_not_buried(self, worker: UUID) -> None:
        assert services.bury_silent_workers(before=database_now() - timedelta(seconds=30)) == 0
        assert held() == {}

    def test_and_comes_back_and_ends_posts_only_the_difference(self, worker: UUID) -> None:
        silent(60)
        services.bury_silent_workers(before=database_now() - timedelta(seconds=30))
        buried = held()
        services.report(worker, state="ready", current_job=None)
        assert Worker.objects.get().state == "ready"
        used(Kind.COMPUTE, 20)
        services.report(worker, state="gone")
        assert held()["cold_start"] == buried["cold_start"]
        assert held()["idle"] == pytest.approx(paid_of(worker) - 10 - 20)
        assert sum(held().values()) == pytest.approx(paid_of(worker), abs=1e-6)

    def test_that_is_heard_of_again_at_that_moment_is_not_settled(self, worker: UUID) -> None:
        accounts.settle_gone(id=worker, now=database_now())
        assert held() == {}


class TestWhatWasPaid:
    def test_is_told_by_model_and_day(self, worker: UUID, tenant: Tenant) -> None:
        used(Kind.COMPUTE, 40, tenant=tenant)
        used(Kind.CACHE, 1000, worker="", tenant=tenant)
        services.report(worker, state="gone")
        today = day_of(database_now())
        (row,) = paid_by_day(first=today, last=today)
        assert (row.model, row.day, row.compute) == ("toy", today, 40)
        assert row.paid == pytest.approx(paid_of(worker))
        assert paid_by_day(first=today - timedelta(9), last=today - timedelta(1)) == []

    def test_includes_what_workers_that_are_there_hold_and_no_line_says(self, worker: UUID) -> None:
        services.report(worker)
        used(Kind.COMPUTE, 40)
        (row,) = held_now()
        assert (row.model, row.day, row.compute) == ("toy", None, 0)
        assert row.cold_start == 10
        idle = paid_of(worker, until=LedgerLine.objects.get().at) - 10 - 40
        assert row.idle == pytest.approx(idle)
        assert float(row.cost) == pytest.approx((10 + idle) * 0.5)
        services.report(worker, state="gone")
        assert held_now() == []

    def test_is_a_page_of_the_admin(self, worker: UUID, admin_client: Client) -> None:
        used(Kind.COMPUTE, 40)
        assert "What was paid" in admin_client.get(PAGE).content.decode()
        shown = admin_client.get(_page(admin_client)).content.decode()
        assert "40.0" in shown
        assert "still there" in shown

    def test_is_not_for_everybody(
        self, worker: UUID, admin_client: Client, client: Client, django_user_model: Any
    ) -> None:
        page = _page(admin_client)
        client.force_login(django_user_model.objects.create_user("bob", is_staff=True))
        assert client.get(page).status_code == 403


def _page(admin_client: Client) -> str:
    text = admin_client.get(PAGE).content.decode()
    return next(part for part in text.split('"') if part.startswith(PAGE) and "paid" in part)


def test_the_share_of_a_worker_that_nobody_knows_is_a_whole_card(worker: UUID) -> None:
    assert (services.share_of("w1"), services.share_of("w9")) == (0.5, 1.0)
