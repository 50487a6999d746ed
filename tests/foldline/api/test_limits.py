"""What a refusal by a limit looks like, and the limits that stand in front of everything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.test import Client, RequestFactory

from foldline.api import problems
from foldline.api.answers import Problem
from foldline.errors import FoldlineError, QuotaExceeded, QuotaForbids, RepeatFailure
from foldline.jobs import tickets
from foldline.jobs.models import Job
from foldline.tenants.models import Quota, Tenant

Submit = Callable[..., Any]  # the test client's answer

# Structured fields (RFC 9651): one item, a string, and its parameters.
NAME = r'"[a-z_]+(?::[a-z0-9_]+)?"'
OFFERED = re.compile(rf'{NAME};q=\d+(?:;qu="[a-z-]+")?(?:;w=[1-9]\d*)?')
LEFT = re.compile(rf"{NAME};r=\d+(?:;t=\d+)?")


def told(error: FoldlineError) -> Any:
    return problems.answer(error, RequestFactory().get("/v1/jobs"))


def body_of(answer: Any) -> dict[str, Any]:
    """The problem; it is what the OpenAPI document says."""
    body: dict[str, Any] = json.loads(answer.content)
    Problem.model_validate(body)
    assert body.keys() <= {field.alias or name for name, field in Problem.model_fields.items()}
    return body


class TestAnswers:
    def test_a_limit_with_a_window(self) -> None:
        until = datetime(2026, 12, 1, tzinfo=UTC)
        error = QuotaExceeded.of(
            "gpu_seconds_day",
            used=3500.5,
            allowed=3600,
            until=until,
            retry_after_s=1200,
            model="esm",
            window_s=86_400,
            unit="gpu-seconds",
        )
        answer = told(error)
        body = body_of(answer)
        assert answer.status_code == 429
        assert answer.headers["Retry-After"] == "1200"
        assert answer.headers["RateLimit-Policy"] == (
            '"gpu_seconds_day:esm";q=3600;qu="gpu-seconds";w=86400'
        )
        assert answer.headers["RateLimit"] == '"gpu_seconds_day:esm";r=99;t=1200'
        assert (body["code"], body["retryable"], body["retry_after_s"]) == (
            "quota_exceeded",
            True,
            1200,
        )
        assert body["limit"] == {
            "name": "gpu_seconds_day",
            "model": "esm",
            "used": 3500.5,
            "allowed": 3600,
            "until": "2026-12-01T00:00:00Z",
        }
        assert body["violated-policies"] == ["gpu_seconds_day:esm"]
        assert "3500.5 used of 3600" in body["detail"]

    def test_a_limit_on_what_is_there_at_once_has_no_window(self) -> None:
        error = QuotaExceeded.of(
            "waiting", used=12, allowed=10, retry_after_s=5, unit="concurrent-requests"
        )
        answer = told(error)
        assert answer.headers["RateLimit-Policy"] == '"waiting";q=10;qu="concurrent-requests"'
        assert answer.headers["RateLimit"] == '"waiting";r=0'
        assert body_of(answer)["limit"]["until"] is None

    def test_what_waiting_does_not_help_is_a_403_without_a_rate(self) -> None:
        answer = told(QuotaForbids.of("artifact_bytes", used=2**40, allowed=2**39))
        body = body_of(answer)
        assert answer.status_code == 403
        assert not {"RateLimit", "RateLimit-Policy", "Retry-After"} & answer.headers.keys()
        assert (body["code"], body["retryable"]) == ("quota_forbids", False)
        assert body["limit"]["used"] == 2**40
        assert "1099511627776 used of 549755813888" in body["detail"]

    def test_a_limit_without_a_number_names_itself(self) -> None:
        body = body_of(told(QuotaForbids.of("allowed", used=None, allowed=None, model="esm")))
        assert body["limit"]["used"] is body["limit"]["allowed"] is None
        assert "allowed of esm" in body["detail"]

    def test_a_count_is_told_as_a_whole_number(self) -> None:
        answer = told(QuotaExceeded.of("waiting", used=2.0, allowed=2, retry_after_s=5))
        assert '"used":2,' in answer.content.decode()

    def test_until_is_told_in_utc(self) -> None:
        until = datetime(2026, 12, 1, 3, tzinfo=timezone(timedelta(hours=3)))
        error = QuotaExceeded.of("waiting", used=1, allowed=1, until=until, retry_after_s=1)
        assert body_of(told(error))["limit"]["until"] == "2026-12-01T00:00:00Z"

    def test_a_call_that_keeps_failing_hears_of_its_first_failure(self) -> None:
        first = body_of(told(QuotaForbids()))
        answer = told(RepeatFailure.of(first, failures=6, retry_after_s=3600))
        body = body_of(answer)
        assert answer.status_code == 429
        assert (body["code"], body["retryable"]) == ("repeat_failure", False)
        assert body["first_error"] == first
        assert answer.headers["Retry-After"] == "3600"


@pytest.mark.django_db
class TestRates:
    def test_submits_beyond_the_rate_are_refused_and_make_no_job(
        self, submit: Submit, tenant: Tenant
    ) -> None:
        Quota.objects.create(tenant=tenant, requests_per_minute=2)
        answers = [submit() for _ in range(3)]
        assert [answer.status_code for answer in answers] == [202, 202, 429]
        refused = answers[-1]
        body = body_of(refused)
        assert OFFERED.fullmatch(refused.headers["RateLimit-Policy"])
        assert LEFT.fullmatch(refused.headers["RateLimit"])
        assert refused.headers["RateLimit-Policy"] == '"requests_per_minute";q=2;w=60'
        assert 1 <= int(refused.headers["Retry-After"]) <= 30
        assert body["limit"] | {"until": None} == {
            "name": "requests_per_minute",
            "model": None,
            "used": 2,
            "allowed": 2,
            "until": None,
        }
        until = datetime.fromisoformat(body["limit"]["until"])
        assert timedelta(0) < until - datetime.now(UTC) <= timedelta(seconds=31)
        assert Job.objects.count() == 2

    def test_polls_have_a_rate_of_their_own(
        self, submit: Submit, api: Client, tenant: Tenant
    ) -> None:
        Quota.objects.create(tenant=tenant, polls_per_minute=2)
        job = submit().json()["id"]
        codes = [api.get(f"/v1/jobs/{job}").status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        assert submit().status_code == 202

    def test_a_tenant_with_no_request_left_can_still_cancel(
        self, submit: Submit, api: Client, tenant: Tenant
    ) -> None:
        Quota.objects.create(tenant=tenant, requests_per_minute=1)
        job = submit().json()["id"]
        assert submit().status_code == 429
        assert api.post(f"/v1/jobs/{job}/cancel").status_code == 200

    def test_who_is_refused_costs_the_others_nothing(
        self, submit: Submit, other_api: Client, tenant: Tenant
    ) -> None:
        Quota.objects.create(tenant=tenant, requests_per_minute=0)
        assert submit().status_code == 429
        assert submit(by=other_api).status_code == 202

    def test_a_refusal_comes_before_the_body_is_read(self, submit: Submit, tenant: Tenant) -> None:
        Quota.objects.create(tenant=tenant, requests_per_minute=0)
        assert submit(b"{not json").json()["code"] == "quota_exceeded"

    def test_a_key_that_is_refused_is_not_counted(
        self, client: Client, submit: Submit, tenant: Tenant
    ) -> None:
        Quota.objects.create(tenant=tenant, requests_per_minute=1)
        for _ in range(3):
            wrong = {"Authorization": "Bearer fl_live_" + "a" * 8 + "_" + "b" * 43}
            assert client.post("/v1/artifacts", headers=wrong).status_code == 401
        assert submit().status_code == 202

    def test_limits_are_kept_while_redis_is_away(
        self, toy: Any, api: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nowhere = tickets.Publisher("redis://127.0.0.1:1/0")
        monkeypatch.setattr(tickets, "publisher", lambda: nowhere)
        assert not tickets.send("q")  # it is away indeed
        Quota.objects.create(tenant=tenant, requests_per_minute=2, polls_per_minute=1)
        body = {"inputs": {"sequence": "EVQ"}}
        posts = [api.post("/v1/models/toy/jobs", body, "application/json") for _ in range(3)]
        assert [answer.status_code for answer in posts] == [202, 202, 429]
        assert [api.get("/v1/jobs").status_code for _ in range(2)] == [200, 429]
