"""One message, row or endpoint that nobody thought of keeps no other from being told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.db.models import F

from foldline.clock import database_now
from foldline.jobs.models import Fault, Job, Outbox
from foldline.notify import settling
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.notify.notifier import Notifier
from foldline.notify.signing import signed_headers
from foldline.notify.spreading import PUT_OFF, spread
from foldline.tenants.models import Tenant
from tests.foldline.notify.conftest import Beating, Receiver, Register

pytestmark = pytest.mark.django_db

EndJob = Callable[..., UUID]


def counted() -> dict[str, int]:
    return dict(Fault.objects.values_list("part", "times"))


@pytest.fixture
def odd(endpoint: WebhookEndpoint, end_job: EndJob) -> UUID:
    """A job whose error is of no shape that this release knows; its end is to be told."""
    job_id = end_job()
    Job.objects.filter(id=job_id).update(error=["of another release"])
    return job_id


def test_a_row_of_the_outbox_that_cannot_be_told_keeps_no_other_from_it(
    odd: UUID, end_job: EndJob
) -> None:
    other = end_job()
    assert spread() == 1
    assert Delivery.objects.get().job_id == other
    assert counted() == {"notify: outbox": 2}, "all together, and the one"


def test_it_is_put_off_and_told_when_it_can_be(odd: UUID) -> None:
    spread()
    assert spread() == 0
    assert counted() == {"notify: outbox": 2}, "it is not tried with each round"
    row = Outbox.objects.get()
    assert row.attempts == 1
    assert timedelta(0) < row.not_before - database_now() <= PUT_OFF
    Job.objects.filter(id=odd).update(error=None)
    Outbox.objects.update(not_before=F("not_before") - PUT_OFF)
    assert spread() == 1
    assert Delivery.objects.get().job_id == odd


def test_an_outbox_that_cannot_be_read_keeps_no_message_from_being_sent(
    endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    end_job()
    spread()
    monkeypatch.setattr("foldline.notify.notifier.spread", lambda: 1 // 0)
    beating.until(lambda: Delivery.objects.filter(state="delivered").exists())
    assert counted()["notify: outbox"]


def test_a_message_whose_outcome_cannot_be_written_is_not_sent_again_and_again(
    endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating
) -> None:
    end_job()
    spread()
    Delivery.objects.update(tries=7)
    beating.until_told()
    assert len(receiver.received) == 1
    given_up = Delivery.objects.get()
    assert (given_up.state, given_up.next_at) == ("dead", None)
    assert "fault of Foldline" in given_up.note
    assert counted() == {"notify: outcome": 1}


def test_one_that_cannot_even_be_given_up_keeps_no_other_from_being_sent(
    endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    end_job()
    spread()
    Delivery.objects.update(tries=7)
    monkeypatch.setattr("foldline.notify.notifier.give_up", lambda _delivery: 1 / 0)
    beating.until(lambda: "notify: outcome" in counted())
    end_job()
    beating.until(lambda: Delivery.objects.filter(state="delivered").exists())
    assert len(receiver.received) == 2
    monkeypatch.setattr("foldline.notify.notifier.give_up", settling.give_up)


def test_a_message_that_cannot_be_signed_is_a_failed_try_and_the_next_one_is_sent(
    endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    end_job(), end_job()
    spread()
    first = Delivery.objects.order_by("next_at", "id")[0]
    Delivery.objects.filter(pk=first.pk).update(next_at=F("next_at") - timedelta(seconds=1))

    def fails_once(event: UUID, *rest: object, **more: object) -> object:
        if event == first.event:
            raise OverflowError("a bug")
        return signed_headers(event, *rest, **more)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr("foldline.notify.notifier.signed_headers", fails_once)
    beating.until_told()
    first.refresh_from_db()
    assert (first.state, first.attempts) == ("waiting", 1)
    assert first.tries[0]["error"] == "It could not be sent: a fault of Foldline."
    assert Delivery.objects.exclude(pk=first.pk).get().state == "delivered"


def test_an_endpoint_that_cannot_be_served_keeps_no_other_from_it(
    tenant: Tenant, register: Register, receiver: Receiver, end_job: EndJob, beating: Beating,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    bad, good = register(f"{receiver.url}/bad"), register(f"{receiver.url}/good")
    places = Notifier._places

    def fails(self: Notifier, endpoint: WebhookEndpoint) -> int:
        return places(self, endpoint) if endpoint.id != bad.id else 1 // 0

    monkeypatch.setattr(Notifier, "_places", fails)
    end_job()
    beating.until(lambda: Delivery.objects.get(endpoint=good).state == "delivered")
    assert counted()["notify: endpoint"]


def test_a_clean_up_that_fails_and_a_round_that_fails_end_no_notifier(
    endpoint: WebhookEndpoint, receiver: Receiver, end_job: EndJob, beating: Beating,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("foldline.notify.notifier.clean", lambda now: 1 // 0)
    end_job()
    beating.until_told()
    assert len(receiver.received) == 1
    assert counted()["notify: retention"]
    monkeypatch.setattr("foldline.notify.deliveries.endpoints_with_due", lambda now: 1 // 0)
    beating.notifier._guarded(beating.notifier.beat)
    assert counted()["notify"] == 1
