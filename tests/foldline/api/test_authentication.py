from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from foldline.jobs.models import Job
from foldline.tenants.models import ApiKey, Tenant
from foldline.tenants.services import callers, revoke_key

pytestmark = pytest.mark.django_db
Submit = Callable[..., Any]  # the test client's answer
MakeKey = Callable[..., tuple[ApiKey, str]]


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, "key_missing"),
        ("", "key_missing"),
        ("Bearer", "key_missing"),
        ("Bearer ", "key_missing"),
        ("Bearer nonsense", "key_refused"),
        ("Basic dXNlcjpwYXNz", "key_missing"),
        ("Bearer fl_live_" + "a" * 8 + "_" + "b" * 43, "key_refused"),
        ("Bearer \xff\x00", "key_refused"),
        ("Bearer " + "fl_live_" * 8000, "key_refused"),
        ("Bearer fl_live_" + "a" * 8 + "_" + "b" * 43 + " and more", "key_refused"),
        ("Bearer fl_live_" + "a" * 8 + "_" + "b" * 43 + ", Bearer x", "key_refused"),
        ("Bearer\tfl_live_" + "a" * 8 + "_" + "b" * 43, "key_missing"),
        ("fl_live_" + "a" * 8 + "_" + "b" * 43, "key_missing"),  # the bare key
        ("Bearer fl_live_%00000000_" + "b" * 43, "key_refused"),
        ("Bearer ' or 1=1 --", "key_refused"),
    ],
)
def test_a_missing_or_wrong_key_is_a_401(
    client: Client, toy: Any, header: str | None, expected: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    for answer in (
        client.get("/v1/jobs", headers=headers),
        client.post("/v1/models/toy/jobs", {}, "application/json", headers=headers),
    ):
        assert code(answer) == (401, expected)
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_the_scheme_is_not_case_sensitive(client: Client, api_key: str) -> None:
    answer = client.get("/v1/jobs", headers={"Authorization": f"bearer  {api_key} "})
    assert answer.status_code == 200


@pytest.mark.parametrize("where", ["?key={}", "?limit=1&api_key=x{}", "/{}"])
def test_a_key_in_the_url_is_called_compromised(api: Client, api_key: str, where: str) -> None:
    for answer in (
        api.get("/v1/jobs" + where.format(api_key)),
        api.post("/v1/models/toy/jobs" + where.format(api_key).replace("/", "?"), {}),
    ):
        assert code(answer) == (400, "key_in_url")
        assert "compromised" in answer.json()["detail"]
        assert api_key not in answer.content.decode()


def test_a_key_in_the_url_is_not_logged(
    api: Client, api_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    api.get(f"/v1/jobs?key={api_key}")
    assert api_key not in caplog.text


def test_a_revoked_key_is_refused(client: Client, submit: Submit, make_key: MakeKey) -> None:
    key, plaintext = make_key()
    headers = {"Authorization": f"Bearer {plaintext}"}
    assert client.get("/v1/jobs", headers=headers).status_code == 200
    revoke_key(key)
    callers.clear()
    assert code(client.get("/v1/jobs", headers=headers)) == (401, "key_refused")


def test_an_expired_key_is_refused(client: Client, toy: Any, make_key: MakeKey) -> None:
    _, plaintext = make_key(expires_at=timezone.now() - timedelta(seconds=1))
    headers = {"Authorization": f"Bearer {plaintext}"}
    for answer in (
        client.get("/v1/jobs", headers=headers),
        client.post("/v1/models/toy/jobs", {}, "application/json", headers=headers),
    ):
        assert code(answer) == (401, "key_refused")


def test_a_tenant_that_is_switched_off_is_refused_everywhere(
    client: Client, submit: Submit, api_key: str, tenant: Tenant
) -> None:
    job = submit().json()["id"]
    Tenant.objects.filter(pk=tenant.pk).update(active=False)
    callers.clear()
    headers = {"Authorization": f"Bearer {api_key}"}
    assert code(submit()) == (401, "key_refused")
    for url in ("/v1/jobs", f"/v1/jobs/{job}", "/v1/models"):
        assert code(client.get(url, headers=headers)) == (401, "key_refused")
    assert Job.objects.get().state == "queued"  # what was accepted is not thrown away


def test_another_tenants_key_sees_and_cancels_nothing_of_mine(
    submit: Submit, other_api: Client
) -> None:
    job = submit().json()["id"]
    assert other_api.get("/v1/jobs").json()["jobs"] == []
    assert code(other_api.get(f"/v1/jobs/{job}")) == (404, "job_not_found")
    assert code(other_api.post(f"/v1/jobs/{job}/cancel")) == (404, "job_not_found")
    assert Job.objects.get().state == "queued"


def test_an_idempotency_key_of_another_tenant_is_not_mine(
    submit: Submit, other_api: Client
) -> None:
    mine = submit(Idempotency_Key="same")
    theirs = submit(by=other_api, Idempotency_Key="same")
    assert mine.json()["id"] != theirs.json()["id"]
    assert "Idempotency-Replayed" not in theirs.headers


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Idempotency-Key", "x" * 100_000),
        ("Idempotency-Key", "\x00"),
        ("Idempotency-Key", "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")),
        ("traceparent", "00-" + "0" * 100_000),
        ("traceparent", "\r\nX-Injected: 1"),
        ("X-Request-ID", "\r\nX-Injected: 1"),
        ("X-Request-ID", "é" * 64),
        ("Accept", "\x00;q=\xff"),
        ("Prefer", "wait=99999999999999999999"),
        ("If-None-Match", '"' * 10_000),
        ("Content-Encoding", "\xff"),
        ("X-Forwarded-Host", "evil.example"),
    ],
)
def test_no_header_breaks_anything(submit: Submit, api: Client, header: str, value: str) -> None:
    answers = [
        submit(**{header.replace("-", "_"): value}),
        api.get("/v1/jobs", headers={header: value}),
    ]
    for answer in answers:
        assert answer.status_code < 500
        assert "X-Injected" not in answer.headers
        assert "evil.example" not in answer.content.decode()


def test_a_key_that_may_only_read_submits_nothing(
    client: Client, submit: Submit, make_key: MakeKey
) -> None:
    headers = {"Authorization": f"Bearer {make_key(scopes=['read'])[1]}"}
    assert client.get("/v1/jobs", headers=headers).status_code == 200
    for url in (
        "/v1/models/toy/jobs",
        "/v1/artifacts",
        "/v1/jobs/0199d3b4-0000-7000-8000-000000000000/cancel",
    ):
        answer = client.post(url, {}, "application/json", headers=headers)
        assert code(answer) == (403, "scope_missing")


def test_a_key_that_may_only_submit_reads_nothing(client: Client, make_key: MakeKey) -> None:
    headers = {"Authorization": f"Bearer {make_key(scopes=['submit'])[1]}"}
    assert code(client.get("/v1/jobs", headers=headers)) == (403, "scope_missing")


def test_a_session_of_the_admin_opens_nothing_here(admin_client: Client) -> None:
    assert code(admin_client.get("/v1/jobs")) == (401, "key_missing")
