"""What `/metrics` tells of webhooks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from foldline.clock import database_now
from foldline.jobs.models import Outbox
from foldline.notify import endpoints
from foldline.notify.counts import count_try, tries
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.notify.schedule import Outcome
from foldline.notify.settling import settle
from foldline.notify.spreading import spread
from foldline.tenants.models import Tenant
from tests.at_once import at_once
from tests.foldline.jobs.test_sharing_races import who_wait_for_a_lock
from tests.foldline.notify.conftest import Beating, Receiver, Register
from tests.redis_server import free_port
from tests.worker_process import wait_until

pytestmark = pytest.mark.django_db

EndJob = Callable[..., UUID]
URL = "https://hooks.example.com/"


def told(client: Client) -> Mapping[tuple[str, str], float]:
    """Samples of webhooks by their name and their one label's value."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return {
        (sample.name.removeprefix("foldline_webhook_"), next(iter(sample.labels.values()))): (
            sample.value
        )
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
        if sample.name.startswith("foldline_webhook_")
    }


def test_where_nothing_has_happened_everything_is_zero(client: Client) -> None:
    assert told(client) == {
        **{("tries_total", result): 0 for result in ("taken", "refused", "unanswered")},
        **{("undelivered", place): 0 for place in ("outbox", "waiting")},
        **{("oldest_undelivered_seconds", place): 0 for place in ("outbox", "waiting")},
        **{("endpoints", state): 0 for state in ("well", "failing", "disabled")},
    }


def test_tries_are_counted_by_what_came_of_them(
    client: Client,
    make_receiver: Callable[..., Receiver],
    register: Register,
    end_job: EndJob,
    beating: Beating,
    settings: Any,
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    register(make_receiver().url)
    register(make_receiver(status=500).url)
    settings.WEBHOOK_HOSTS = [*settings.WEBHOOK_HOSTS, nobody]
    register(f"http://{nobody}/")
    end_job()
    end_job()
    beating.until_told()
    counted = {result: n for (name, result), n in told(client).items() if name == "tries_total"}
    assert counted == {"taken": 2, "refused": 2, "unanswered": 2}


@pytest.mark.django_db(transaction=True)
def test_two_that_count_the_first_try_of_its_kind_at_once_count_both() -> None:
    """One notifier writes down what it sent, while the one after it does so already."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite lets one writer in at a time")
    counted = threading.Event()

    def first() -> None:
        with transaction.atomic():
            count_try(Outcome(status=200))
            counted.set()
            wait_until(who_wait_for_a_lock, what="the other one waits")

    def second() -> None:
        assert counted.wait(60)
        with transaction.atomic():
            count_try(Outcome(status=200))

    assert at_once([first, second]) == [None, None]
    assert tries()["taken"] == 2


def test_what_has_gone_from_the_log_stays_counted(
    client: Client, register: Register, end_job: EndJob
) -> None:
    register(URL)
    end_job()
    spread()
    settle(Delivery.objects.get(), Outcome(status=200))
    Delivery.objects.all().delete()
    assert told(client)["tries_total", "taken"] == 1


def test_messages_that_nobody_took_are_told_with_the_age_of_the_oldest(
    client: Client, register: Register, end_job: EndJob
) -> None:
    register(URL)
    for age_s in (300, 100):
        job = end_job()
        made = database_now() - timedelta(seconds=age_s)
        Outbox.objects.filter(job_id=job).update(created_at=made)
    before = told(client)
    assert (before["undelivered", "outbox"], before["undelivered", "waiting"]) == (2, 0)
    assert before["oldest_undelivered_seconds", "outbox"] == pytest.approx(300, abs=60)
    spread()
    first = Delivery.objects.order_by("id")[0]
    Delivery.objects.filter(pk=first.pk).update(created_at=database_now() - timedelta(seconds=5000))
    after = told(client)
    assert (after["undelivered", "outbox"], after["undelivered", "waiting"]) == (0, 2)
    assert after["oldest_undelivered_seconds", "outbox"] == 0
    assert after["oldest_undelivered_seconds", "waiting"] == pytest.approx(5000, abs=60)
    settle(first, Outcome(status=200))
    assert told(client)["undelivered", "waiting"] == 1


def test_messages_of_a_tenant_that_is_switched_off_are_not_missed(
    client: Client, register: Register, end_job: EndJob, tenant: Tenant
) -> None:
    register(URL)
    end_job()
    spread()
    Tenant.objects.filter(pk=tenant.pk).update(active=False)
    assert told(client)["undelivered", "waiting"] == 0


def test_endpoints_are_counted_by_state_and_deleted_ones_are_not(
    client: Client, register: Register
) -> None:
    made = [register(f"{URL}{n}") for n in range(5)]
    endpoints.disable(made[0].id, reason="broken")
    endpoints.delete(made[1].id)
    WebhookEndpoint.objects.filter(pk=made[2].pk).update(failures=1)
    found = {state: n for (name, state), n in told(client).items() if name == "endpoints"}
    assert found == {"well": 2, "failing": 1, "disabled": 1}


def test_what_cannot_be_read_is_left_out_and_not_zero(client: Client) -> None:
    def refuse(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "notify_" in sql:
            raise OperationalError("the database went away")
        return execute(sql, *rest)

    client.get("/healthz")
    with connection.execute_wrapper(refuse):
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert b"foldline_webhook" not in answer.content
    assert b"django_http_requests_total_by_view_transport_method_total" in answer.content
