"""The notifier against real receivers: delivered, tried again, given up, and nobody slowed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError
from django.db.models import F
from pytest_django import Settings
from standardwebhooks import Webhook

from foldline.clock import database_now
from foldline.jobs.models import Leadership
from foldline.notify import deliveries, endpoints
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.notify.notifier import AT_ONCE_OF_ENDPOINT, AT_ONCE_OF_TENANT, Notifier
from foldline.notify.schedule import REST_AFTER
from foldline.tenants.models import AuditEntry, Tenant
from tests.foldline.notify.conftest import Beating, Receiver, Register

pytestmark = pytest.mark.django_db

EndJob = Callable[..., UUID]
MakeReceiver = Callable[..., Receiver]


def the_delivery() -> Delivery:
    return Delivery.objects.get()


def come_due() -> None:
    """As if the pauses were over."""
    Delivery.objects.filter(state="waiting").update(next_at=database_now())
    WebhookEndpoint.objects.update(paused_until=None)


class TestDelivering:
    def test_the_end_of_a_job_arrives_signed(
        self, tenant: Tenant, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        _, secret = endpoints.register(tenant.id, url=receiver.url, all_jobs=True)
        job = end_job()
        beating.until_told()
        (came,) = receiver.received
        said = Webhook(secret).verify(came.body, came.headers)
        assert (said["type"], said["data"]["id"]) == ("job.cancelled", str(job))
        done = the_delivery()
        assert (done.state, done.attempts, done.next_at) == ("delivered", 1, None)
        assert came.headers["webhook-id"] == str(done.event)
        (tried,) = done.tries
        assert (tried["attempt"], tried["status"], tried["error"]) == (1, 200, None)

    def test_after_a_rotation_both_secrets_verify(
        self, tenant: Tenant, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        made, old = endpoints.register(tenant.id, url=receiver.url, all_jobs=True)
        new = endpoints.rotate(made)
        end_job()
        beating.until_told()
        (came,) = receiver.received
        for secret in (old, new):
            Webhook(secret).verify(came.body, came.headers)

    def test_a_secret_that_cannot_be_read_is_said_and_not_sent(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating,
        settings: Settings,
    ) -> None:  # fmt: skip
        settings.SECRET_KEY = "another one"
        end_job()
        beating.until(lambda: the_delivery().attempts == 1)
        assert the_delivery().tries[0]["error"] == "Its secret cannot be read any more: rotate it."
        assert receiver.received == []

    def test_a_tenant_that_is_switched_off_is_told_once_it_is_on_again(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        Tenant.objects.update(active=False)
        end_job()
        beating.notifier.beat()
        assert the_delivery().state == "waiting"
        assert beating.notifier.under_way == 0
        Tenant.objects.update(active=True)
        beating.until(lambda: receiver.received)


class TestRetries:
    def test_a_failed_one_is_tried_again_with_the_same_event_and_body(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        receiver.status = 500
        began = database_now()
        end_job()
        beating.until(lambda: the_delivery().attempts == 1)
        waiting = the_delivery()
        assert waiting.next_at is not None
        assert began + timedelta(seconds=5) <= waiting.next_at
        assert waiting.next_at <= database_now() + timedelta(seconds=6)
        receiver.status = 200
        come_due()
        beating.until(lambda: the_delivery().state == "delivered")
        first, second = receiver.received
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert first.body == second.body
        assert [tried["status"] for tried in the_delivery().tries] == [500, 200]

    def test_a_retry_after_is_honoured(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        receiver.status, receiver.headers = 503, {"Retry-After": "3600"}
        began = database_now()
        end_job()
        beating.until(lambda: the_delivery().attempts == 1)
        waiting = the_delivery()
        assert waiting.next_at is not None
        assert waiting.next_at >= began + timedelta(hours=1)

    def test_after_the_last_try_it_is_dead_and_may_be_sent_again(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        receiver.status = 500
        end_job()
        for attempt in range(1, 11):
            come_due()
            beating.until(lambda: the_delivery().attempts == attempt)  # noqa: B023 - at once
        dead = the_delivery()
        assert (dead.state, dead.note, dead.next_at) == ("dead", "Not taken in 10 tries.", None)
        receiver.status = 200
        deliveries.redeliver(dead)
        beating.until(lambda: the_delivery().state == "delivered")
        assert len({came.headers["webhook-id"] for came in receiver.received}) == 1
        assert len(the_delivery().tries) == 11
        assert the_delivery().note == ""

    def test_a_ping_is_tried_once(
        self, endpoint: WebhookEndpoint, receiver: Receiver, beating: Beating
    ) -> None:
        receiver.status = 500
        deliveries.ping(endpoint)
        beating.until(lambda: the_delivery().attempts == 1)
        assert (the_delivery().state, the_delivery().note) == ("dead", "Not taken in 1 try.")
        assert json.loads(receiver.received[0].body)["type"] == "ping"

    def test_what_is_asked_for_while_it_is_under_way_is_sent_once_more(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        receiver.may_answer.clear()
        end_job()
        beating.until(lambda: receiver.received)
        deliveries.redeliver(the_delivery())
        receiver.may_answer.set()
        beating.until_told()
        assert len(receiver.received) == 2
        assert the_delivery().state == "delivered"


class TestEndpointsThatEnd:
    def test_410_disables_it_drops_what_waits_and_is_audited(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        receiver.status = 410
        for _ in range(5):
            end_job()
        beating.until(lambda: not Delivery.objects.filter(state="waiting").exists())
        endpoint.refresh_from_db()
        assert endpoint.disabled_reason == "It answered 410: it wants no more messages."
        assert set(Delivery.objects.values_list("state", flat=True)) == {"dropped"}
        assert len(receiver.received) <= 2
        assert [entry.actor for entry in AuditEntry.objects.all()] == ["notifier"]

    def test_days_of_nothing_but_failures_disable_it(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        receiver.status = 500
        since = database_now() - timedelta(days=5, minutes=1)
        WebhookEndpoint.objects.update(failures=40, failing_since=since)
        end_job()
        beating.until(lambda: WebhookEndpoint.objects.filter(disabled_at__isnull=False).exists())
        endpoint.refresh_from_db()
        assert endpoint.disabled_reason == "It took nothing for 5 days, 41 times in a row."

    def test_one_that_is_deleted_meanwhile_gets_no_more(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        receiver.may_answer.clear()
        end_job()
        beating.until(lambda: receiver.received)
        endpoints.delete(endpoint.id)
        receiver.may_answer.set()
        beating.until(lambda: not beating.notifier.under_way)
        assert the_delivery().state == "dropped"

    def test_a_tenant_that_is_deleted_meanwhile_breaks_nothing(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating,
        tenant: Tenant,
    ) -> None:  # fmt: skip
        receiver.may_answer.clear()
        end_job()
        beating.until(lambda: receiver.received)
        tenant.delete()
        receiver.may_answer.set()
        beating.until(lambda: not beating.notifier.under_way)


class TestOneSlowsNobody:
    """The breaker and the bounds of the pool."""

    def test_hundreds_for_a_receiver_that_hangs_keep_nobody_waiting(
        self, make_receiver: MakeReceiver, register: Register, end_job: EndJob, beating: Beating,
        other_tenant: Tenant,
    ) -> None:  # fmt: skip
        hanging, well = make_receiver(), make_receiver()
        hanging.may_answer.clear()
        dead, good = register(hanging.url), register(well.url, of=other_tenant)
        end_job()
        beating.until(lambda: hanging.received)
        first = Delivery.objects.get()
        Delivery.objects.bulk_create(
            Delivery(
                endpoint=dead, event=UUID(int=number), type=first.type, body=first.body,
                created_at=first.created_at, next_at=first.created_at,
            )
            for number in range(300)
        )  # fmt: skip
        jobs = [end_job(of=other_tenant) for _ in range(20)]
        beating.until(lambda: len(well.received) == len(jobs))
        assert len(hanging.received) <= 2  # and it hangs still
        good.refresh_from_db()
        assert good.failures == 0

    def test_a_slow_endpoint_of_a_tenant_leaves_room_for_its_others(
        self, make_receiver: MakeReceiver, register: Register, end_job: EndJob, beating: Beating
    ) -> None:
        hanging, well = make_receiver(), make_receiver()
        hanging.may_answer.clear()
        register(hanging.url)
        register(well.url)
        for _ in range(10):
            end_job()
        beating.until(lambda: len(well.received) == 10 and hanging.most_at_once >= 2)
        assert hanging.most_at_once == 2

    def test_a_tenant_has_a_bounded_part_of_the_pool(
        self, make_receiver: MakeReceiver, register: Register, end_job: EndJob, beating: Beating
    ) -> None:
        hanging = [make_receiver() for _ in range(6)]
        for each in hanging:
            each.may_answer.clear()
            register(each.url)
        for _ in range(3):
            end_job()
        beating.until(lambda: beating.notifier.under_way >= AT_ONCE_OF_TENANT)
        for _ in range(3):
            beating.notifier.beat()
        assert beating.notifier.under_way == AT_ONCE_OF_TENANT

    def test_every_endpoint_has_its_turn(
        self, make_receiver: MakeReceiver, register: Register, end_job: EndJob, beating: Beating,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        """More endpoints than a tenant may be served at once, and much for each."""
        monkeypatch.setattr(beating.notifier, "_pool", AtOnce())
        receivers = [make_receiver() for _ in range(8)]
        for each in receivers:
            register(each.url)
        for _ in range(6):
            end_job()
        for _ in range(8 * AT_ONCE_OF_ENDPOINT // AT_ONCE_OF_TENANT):
            beating.notifier.beat()
        assert [len(each.received) for each in receivers] == [AT_ONCE_OF_ENDPOINT] * 8
        beating.until_told()
        assert [len(each.received) for each in receivers] == [6] * 8

    def test_an_endpoint_that_keeps_failing_rests(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        receiver.status = 500
        for _ in range(10):
            end_job()
        beating.until(lambda: WebhookEndpoint.objects.filter(paused_until__isnull=False).exists())
        beating.until(lambda: not beating.notifier.under_way)
        tried = len(receiver.received)
        assert REST_AFTER <= tried <= REST_AFTER + 1
        for _ in range(5):
            beating.notifier.beat()
        assert len(receiver.received) == tried
        # It is tried with one message once the rest is over, and gets all when it takes that.
        receiver.status = 200
        WebhookEndpoint.objects.update(paused_until=F("created_at"))
        receiver.may_answer.clear()
        beating.until(lambda: len(receiver.received) == tried + 1)
        for _ in range(5):
            beating.notifier.beat()
        assert len(receiver.received) == tried + 1
        receiver.may_answer.set()
        come_due()
        beating.until(lambda: Delivery.objects.filter(state="delivered").count() == 10)

    def test_who_asks_for_a_message_ends_the_rest(
        self, endpoint: WebhookEndpoint, receiver: Receiver, beating: Beating
    ) -> None:
        WebhookEndpoint.objects.update(
            failures=5, paused_until=database_now() + timedelta(minutes=9)
        )
        deliveries.ping(endpoint)
        beating.until(lambda: receiver.received)

    def test_a_fault_of_ours_is_a_failed_try(
        self, endpoint: WebhookEndpoint, end_job: EndJob, beating: Beating,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        monkeypatch.setattr("foldline.notify.notifier.send", lambda *_, **__: 1 / 0)
        end_job()
        beating.until(lambda: the_delivery().attempts == 1)
        assert the_delivery().tries[0]["error"] == "It could not be sent: a fault of Foldline."


class TestLeading:
    def test_one_notifier_leads(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
    ) -> None:
        assert beating.notifier.beat()
        second = Notifier(name="second")
        end_job()
        assert not second.beat()
        assert not Delivery.objects.exists()
        second.close()
        beating.until(lambda: receiver.received)

    def test_a_silent_one_is_replaced(self, beating: Beating) -> None:
        assert Notifier(name="first").beat()
        assert not beating.notifier.beat()
        Leadership.objects.update(until="2020-01-01T00:00:00Z")
        assert beating.notifier.beat()

    def test_one_that_ends_lets_the_next_begin_at_once(self, beating: Beating) -> None:
        first = Notifier(name="first")
        assert first.beat()
        first.close()
        assert beating.notifier.beat()

    def test_one_that_ends_writes_down_what_is_under_way(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob
    ) -> None:
        receiver.may_answer.clear()
        notifier = Notifier(name="first")
        end_job()
        Beating(notifier=notifier).until(lambda: receiver.received)
        threading.Timer(0.2, receiver.may_answer.set).start()
        notifier.close()
        assert the_delivery().state == "delivered"

    def test_a_database_that_is_away_loses_no_outcome(
        self, endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        receiver.may_answer.clear()
        end_job()
        beating.until(lambda: receiver.received)
        with monkeypatch.context() as away:
            away.setattr("foldline.notify.settling.database_now", _away)
            receiver.may_answer.set()
            with pytest.raises(OperationalError):
                beating.until(lambda: False)
        beating.until_told()
        assert the_delivery().state == "delivered"
        assert len(receiver.received) == 1


class AtOnce(Executor):
    """A pool that has sent a message by the time it is given back."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        sent: Future[Any] = Future()
        sent.set_result(call(*args, **kwargs))
        return sent


def _away() -> None:
    raise OperationalError("gone")
