"""Webhook endpoints over the API: registered, shown, rotated, tested, deleted; and their log."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from foldline.api.answers import Delivery as DeliveryAnswer
from foldline.api.answers import DeliveryList, WebhookEndpoint, WebhookList, WebhookSecret
from foldline.api.webhooks import Event
from foldline.jobs.models import Job, Outbox
from foldline.notify import endpoints
from foldline.notify.messages import EVENTS
from foldline.notify.models import Delivery
from foldline.notify.models import WebhookEndpoint as Row
from foldline.tenants.models import ApiKey

pytestmark = pytest.mark.django_db

HERE = "/v1/webhook-endpoints"
URL = "https://hooks.example.com/foldline"
Submit = Callable[..., Any]
MISSING = "0199d3b4-0000-7000-8000-000000000000"


@pytest.fixture
def register(api: Client) -> Callable[..., Any]:
    def post(by: Client = api, **body: Any) -> Any:
        return by.post(HERE, {"url": URL, **body}, content_type="application/json")

    return post


Register = Callable[..., Any]


def errors(answer: Any) -> list[tuple[str, str]]:
    return [(error["pointer"], error["code"]) for error in answer.json()["errors"]]


class TestRegistering:
    def test_the_secret_is_shown_once(self, register: Register, api: Client) -> None:
        answer = register(events=["job.failed"], description="alarms")
        assert answer.status_code == 201
        body = answer.json()
        WebhookSecret.model_validate(body)
        assert answer.headers["Location"] == body["urls"]["self"] == f"{HERE}/{body['id']}"
        assert len(b64decode(body["secret"].removeprefix("whsec_"), validate=True)) == 32
        assert (body["events"], body["all_jobs"], body["state"]) == (
            ["job.failed"],
            False,
            "enabled",
        )
        shown = api.get(body["urls"]["self"]).json()
        WebhookEndpoint.model_validate(shown)
        listed = api.get(HERE).json()
        WebhookList.model_validate(listed)
        assert listed["endpoints"] == [shown]
        for told in (str(shown), str(listed)):
            assert "secret" not in told.replace("old_secret_until", "")
            assert body["secret"] not in told

    @pytest.mark.parametrize(
        ("body", "found"),
        [
            ({"url": 7}, ("/url", "wrong_type")),
            ({"url": None}, ("/url", "wrong_type")),
            ({"url": "https://x.example.com/" + "a" * 1000}, ("/url", "too_long")),
            ({"url": "http://hooks.example.com/"}, ("/url", "target_refused")),
            ({"url": "https://127.0.0.1/"}, ("/url", "target_refused")),
            ({"url": "https://localhost/"}, ("/url", "target_refused")),
            ({"url": "http://127.0.0.1:8000/v1/jobs"}, ("/url", "target_refused")),
            ({"url": ""}, ("/url", "target_refused")),
            ({"events": ["job.queued"]}, ("/events/0", "not_allowed")),
            ({"events": ["job.failed"] * 5}, ("/events", "too_many_items")),
            ({"events": "job.failed"}, ("/events", "wrong_type")),
            ({"all_jobs": 1}, ("/all_jobs", "wrong_type")),
            ({"description": "a\nb"}, ("/description", "pattern_mismatch")),
            ({"description": "a" * 201}, ("/description", "too_long")),
            ({"secret": "whsec_mine"}, ("/secret", "unknown_field")),
            ({"tenant": MISSING}, ("/tenant", "unknown_field")),
        ],
        ids=str,
    )
    def test_what_is_wrong_is_pointed_at(
        self, register: Register, body: dict[str, Any], found: tuple[str, str]
    ) -> None:
        answer = register(**body)
        assert answer.status_code == 400
        assert errors(answer) == [found]
        assert not Row.objects.exists()

    def test_the_gateway_itself_is_refused_in_words(self, register: Register) -> None:
        answer = register(url="http://127.0.0.1:8000/v1/models/toy/jobs")
        assert "the gateway itself" in answer.json()["detail"]

    def test_a_second_one_of_a_url_and_an_eleventh_are_refused(self, register: Register) -> None:
        assert register().status_code == 201
        again = register()
        assert (again.status_code, again.json()["code"]) == (409, "webhook_exists")
        for number in range(9):
            assert register(url=f"{URL}/{number}").status_code == 201
        eleventh = register(url=f"{URL}/9")
        assert (eleventh.status_code, eleventh.json()["code"]) == (409, "webhook_limit")

    def test_the_events_are_those_there_are(self) -> None:
        assert Event.__args__ == EVENTS  # type: ignore[attr-defined]  # of a Literal

    def test_looking_needs_read_and_changing_submit(
        self, register: Register, make_key: Callable[..., tuple[ApiKey, str]]
    ) -> None:
        made = register().json()
        for scope, may_look, may_change in (("read", 200, 403), ("submit", 403, 200)):
            key = make_key(name=scope, scopes=[scope])[1]
            client = Client(headers={"Authorization": f"Bearer {key}"})
            assert client.get(made["urls"]["self"]).status_code == may_look
            assert client.post(made["urls"]["rotate"]).status_code == may_change


class TestChanging:
    def test_a_rotation_shows_the_new_secret_once(self, register: Register, api: Client) -> None:
        made = register().json()
        turned = api.post(made["urls"]["rotate"]).json()
        WebhookSecret.model_validate(turned)
        assert turned["secret"] != made["secret"]
        assert turned["old_secret_until"] is not None
        assert turned["secret"] not in str(api.get(made["urls"]["self"]).json())

    def test_a_deleted_one_is_gone(self, register: Register, api: Client) -> None:
        made = register().json()
        gone = api.delete(made["urls"]["self"])
        assert (gone.status_code, gone.content) == (204, b"")
        for answer in (api.get(made["urls"]["self"]), api.delete(made["urls"]["self"])):
            assert (answer.status_code, answer.json()["code"]) == (404, "webhook_not_found")
        assert api.get(HERE).json() == {"endpoints": []}
        assert register().status_code == 201

    def test_a_disabled_one_says_why_and_can_be_enabled(
        self, register: Register, api: Client
    ) -> None:
        made = register().json()
        endpoints.disable(Row.objects.get().pk, reason="It answered 410.")
        shown = api.get(made["urls"]["self"]).json()
        assert (shown["state"], shown["disabled_reason"]) == ("disabled", "It answered 410.")
        refused = api.post(made["urls"]["test"])
        assert (refused.status_code, refused.json()["code"]) == (409, "webhook_disabled")
        enabled = api.post(made["urls"]["enable"]).json()
        WebhookEndpoint.model_validate(enabled)
        assert (enabled["state"], enabled["disabled_reason"]) == ("enabled", None)
        assert api.post(made["urls"]["test"]).status_code == 202


class TestDeliveries:
    def test_a_test_is_a_delivery_that_waits(self, register: Register, api: Client) -> None:
        made = register().json()
        sent = api.post(made["urls"]["test"])
        assert sent.status_code == 202
        DeliveryAnswer.model_validate(sent.json())
        assert (sent.json()["type"], sent.json()["state"]) == ("ping", "waiting")
        listed = api.get(made["urls"]["deliveries"]).json()
        DeliveryList.model_validate(listed)
        assert listed == {"deliveries": [sent.json()], "next_cursor": None}

    def test_pages_lead_from_the_newest_to_the_oldest(
        self, register: Register, api: Client
    ) -> None:
        made = register().json()
        sent = [api.post(made["urls"]["test"]).json()["id"] for _ in range(5)]
        seen: list[str] = []
        asked: dict[str, Any] = {"limit": 2}
        while True:
            page = api.get(made["urls"]["deliveries"], asked).json()
            seen += [each["id"] for each in page["deliveries"]]
            if page["next_cursor"] is None:
                break
            asked["cursor"] = page["next_cursor"]
        assert seen == sent[::-1]

    @pytest.mark.parametrize(
        ("asked", "name"), [({"limit": "0"}, "limit"), ({"cursor": "x"}, "cursor"), ({"a": 1}, "a")]
    )
    def test_a_wrong_page_is_a_400(
        self, register: Register, api: Client, asked: dict[str, Any], name: str
    ) -> None:
        answer = api.get(register().json()["urls"]["deliveries"], asked)
        assert answer.status_code == 400
        assert errors(answer)[0][0] == f"?{name}"

    def test_one_that_is_dead_is_sent_again(self, register: Register, api: Client) -> None:
        made = register().json()
        first = api.post(made["urls"]["test"]).json()
        tried = {"attempt": 1, "status": 500, "ms": 3, "error": "It answered 500.", "at": None}
        tried["at"] = "2026-03-01T00:00:00+00:00"
        Delivery.objects.update(state="dead", attempts=10, next_at=None, note="…", tries=[tried])
        again = api.post(first["urls"]["redeliver"])
        assert again.status_code == 202
        body = again.json()
        DeliveryAnswer.model_validate(body)
        assert (body["state"], body["note"], body["event"]) == ("waiting", None, first["event"])
        assert body["tries"] == [tried]

    def test_a_delivery_of_another_endpoint_is_not_found(
        self, register: Register, api: Client
    ) -> None:
        first, second = register().json(), register(url=f"{URL}/2").json()
        sent = api.post(first["urls"]["test"]).json()["id"]
        for delivery in (sent, MISSING, "nonsense"):
            answer = api.post(f"{second['urls']['deliveries']}/{delivery}/redeliver")
            assert (answer.status_code, answer.json()["code"]) == (404, "delivery_not_found")


class TestSubmitting:
    INPUTS = {"inputs": {"sequence": "EVQ"}}

    @pytest.mark.parametrize("name", ["id", "url"])
    def test_a_job_names_the_endpoint_that_is_told(
        self, register: Register, submit: Submit, api: Client, name: str
    ) -> None:
        made = register().json()
        job = submit({**self.INPUTS, "webhook": made[name]}).json()
        row = Job.objects.get(id=job["id"])
        assert (row.notify, str(row.webhook)) == (True, made["id"])
        api.post(job["urls"]["cancel"])
        assert Outbox.objects.get().job_id == row.id

    def test_a_key_gives_its_job_when_the_endpoint_is_gone_and_another_call_hears_why_not(
        self, register: Register, submit: Submit, api: Client
    ) -> None:
        made = register().json()
        body = {**self.INPUTS, "webhook": URL}
        job = submit(body, Idempotency_Key="k").json()["id"]
        endpoints.delete(made["id"])
        again = submit(body, Idempotency_Key="k")
        assert (again.status_code, again.json()["id"]) == (202, job)
        assert again.headers["Idempotency-Replayed"] == "true"
        item = {"model": "toy", "idempotency_key": "k", **body}
        batch = api.post("/v1/batches", {"jobs": [item]}, content_type="application/json").json()
        assert batch["jobs"][0]["job"]["id"] == job
        other = submit({**body, "seed": 7}, Idempotency_Key="k")
        assert errors(other) == [("/webhook", "webhook_unknown")]

    def test_a_job_that_names_none_is_told_to_nobody(
        self, register: Register, submit: Submit
    ) -> None:
        register()
        assert not Job.objects.get(id=submit().json()["id"]).notify

    def test_an_endpoint_may_hear_of_all_jobs(self, register: Register, submit: Submit) -> None:
        register(all_jobs=True)
        assert Job.objects.get(id=submit().json()["id"]).notify

    def test_anothers_endpoint_is_as_unknown_as_none(
        self, register: Register, submit: Submit, other_api: Client
    ) -> None:
        theirs = register(other_api).json()["id"]
        answers = [submit({**self.INPUTS, "webhook": name}) for name in (theirs, MISSING)]
        assert [answer.status_code for answer in answers] == [400, 400]
        first, second = (answer.json()["errors"] for answer in answers)
        assert first[0].pop("got") == theirs
        assert second[0].pop("got") == MISSING
        assert first == second
        assert not Job.objects.exists()

    def test_an_estimate_refuses_what_its_submit_would(self, toy: object, api: Client) -> None:
        answer = api.post(
            "/v1/models/toy/estimate",
            {**self.INPUTS, "webhook": MISSING},
            content_type="application/json",
        )
        assert errors(answer) == [("/webhook", "webhook_unknown")]

    @pytest.mark.usefixtures("toy", "unsent")
    def test_the_jobs_of_a_batch_are_told_as_those_of_single_calls(
        self, register: Register, api: Client
    ) -> None:
        register()
        items = [
            {"model": "toy", "inputs": {"sequence": "EVQ"}, "webhook": URL},
            {"model": "toy", "inputs": {"sequence": "EVK"}},
            {"model": "toy", "inputs": {"sequence": "EVR"}, "webhook": MISSING},
        ]
        body = api.post("/v1/batches", {"jobs": items}, content_type="application/json").json()
        told, silent, refused = body["jobs"]
        assert Job.objects.get(id=told["job"]["id"]).notify
        assert not Job.objects.get(id=silent["job"]["id"]).notify
        assert refused["error"]["errors"][0]["code"] == "webhook_unknown"
