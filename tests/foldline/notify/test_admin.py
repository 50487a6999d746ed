from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from foldline.clock import database_now
from foldline.notify import endpoints
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.notify.spreading import spread
from foldline.tenants.models import AuditEntry, Tenant
from tests.foldline.notify.conftest import Register

pytestmark = pytest.mark.django_db

ENDPOINTS, DELIVERIES = "/admin/notify/webhookendpoint/", "/admin/notify/delivery/"


@pytest.fixture
def waiting(register: Register, end_job: Callable[..., UUID]) -> Delivery:
    register("https://a.example.com/")
    end_job()
    spread()
    return Delivery.objects.get()


def text(answer: Any) -> str:
    assert answer.status_code == 200
    return str(answer.content.decode())


def press(client: Client, url: str, **form: Any) -> None:
    assert client.post(url, {"_form_submitted": "on", **form}).status_code == 302


class TestEndpoints:
    def test_their_health_is_shown(self, admin_client: Client, waiting: Delivery) -> None:
        WebhookEndpoint.objects.update(
            failures=7, failing_since=database_now(), paused_until=database_now()
        )
        shown = text(admin_client.get(ENDPOINTS))
        assert "https://a.example.com/" in shown
        assert "failing" in shown
        assert ">7<" in shown

    def test_no_secret_is_shown_sealed_or_not(self, admin_client: Client, tenant: Tenant) -> None:
        made, first = endpoints.register(tenant.id, url="https://a.example.com/")
        second = endpoints.rotate(made)
        made.refresh_from_db()
        shown = text(admin_client.get(ENDPOINTS)) + text(
            admin_client.get(f"{ENDPOINTS}{made.pk}/change/")
        )
        for secret in (first, second, made.secret, made.old_secret):
            assert secret not in shown

    def test_one_that_is_disabled_by_hand_gets_no_more_and_says_why(
        self, admin_client: Client, waiting: Delivery
    ) -> None:
        url = f"{ENDPOINTS}{waiting.endpoint_id}"
        press(admin_client, f"{url}/disable_this/", reason="Its owner asked for it.")
        waiting.refresh_from_db()
        assert (waiting.state, waiting.endpoint.disabled_reason) == (
            "dropped",
            "Its owner asked for it.",
        )
        assert "Its owner asked for it." in text(admin_client.get(ENDPOINTS))
        press(admin_client, f"{url}/enable_this/")
        assert not WebhookEndpoint.objects.filter(disabled_at__isnull=False).exists()

    def test_a_disabled_one_cannot_be_disabled_nor_a_deleted_one_enabled(
        self, admin_client: Client, waiting: Delivery
    ) -> None:
        url = f"{ENDPOINTS}{waiting.endpoint_id}"
        endpoints.disable(waiting.endpoint_id, reason="It broke.")
        form = {"_form_submitted": "on", "reason": "again"}
        assert admin_client.post(f"{url}/disable_this/", form).status_code == 403
        endpoints.delete(waiting.endpoint_id)
        assert admin_client.post(f"{url}/enable_this/", form).status_code == 403
        assert "deleted" in text(admin_client.get(ENDPOINTS))

    def test_a_disabling_by_the_platform_is_in_the_audit(
        self, admin_client: Client, waiting: Delivery
    ) -> None:
        endpoints.disable(waiting.endpoint_id, reason="It answered 410.", by="notifier")
        shown = text(admin_client.get("/admin/tenants/auditentry/"))
        assert "notifier" in shown
        assert "disabled_reason" in shown


class TestDeliveries:
    def test_every_try_is_shown(self, admin_client: Client, waiting: Delivery) -> None:
        tried = {
            "attempt": 1,
            "status": None,
            "ms": 9,
            "error": "Its name leads nowhere.",
            "at": "x",
        }
        Delivery.objects.update(tries=[tried])
        for url in (DELIVERIES, f"{DELIVERIES}{waiting.pk}/change/"):
            assert "Its name leads nowhere." in text(admin_client.get(url))
        Delivery.objects.update(tries=[{**tried, "error": None, "status": 204}])
        assert "204 after 9 ms" in text(admin_client.get(DELIVERIES))

    def test_one_is_sent_again(self, admin_client: Client, waiting: Delivery) -> None:
        Delivery.objects.update(
            state="dead", next_at=None, ended_at=database_now(), note="given up"
        )
        press(admin_client, f"{DELIVERIES}{waiting.pk}/redeliver_this/")
        waiting.refresh_from_db()
        assert (waiting.state, waiting.note, waiting.ended_at) == ("waiting", "", None)
        assert waiting.next_at is not None
        assert waiting.next_at <= database_now() + timedelta(seconds=5)

    def test_one_of_a_disabled_endpoint_is_not(
        self, admin_client: Client, waiting: Delivery
    ) -> None:
        endpoints.disable(waiting.endpoint_id, reason="It broke.")
        form = {"_form_submitted": "on"}
        url = f"{DELIVERIES}{waiting.pk}/redeliver_this/"
        assert admin_client.post(url, form).status_code == 403
        chosen = {"action": "redeliver_selected", "_selected_action": [str(waiting.pk)]}
        shown = text(admin_client.post(DELIVERIES, chosen, follow=True))
        assert "The endpoint is disabled and gets nothing." in shown
        assert Delivery.objects.get().state == "dropped"
        assert not AuditEntry.objects.filter(kind="notify.delivery").exists()
