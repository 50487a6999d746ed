from __future__ import annotations

import pytest
from django.test import Client
from prometheus_client import REGISTRY

STATUS = "django_http_responses_total_by_status_view_method_total"


def test_pages_keep_sessions_and_csrf(client: Client, db: None) -> None:
    login = client.get("/admin/login/")
    assert login.status_code == 200
    assert "csrftoken" in login.cookies
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/admin/login/", {"username": "a", "password": "b"}).status_code == 403


@pytest.mark.django_db
def test_the_api_sets_no_cookies_and_needs_no_csrf_token(api_key: str) -> None:
    strict = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {api_key}"})
    answer = strict.post("/v1/jobs/x/cancel")
    assert answer.status_code == 404
    assert not answer.cookies


@pytest.mark.django_db
def test_requests_of_the_api_are_counted_by_view(api: Client) -> None:
    labels = {"status": "200", "view": "jobs", "method": "GET"}
    before = REGISTRY.get_sample_value(STATUS, labels) or 0
    api.get("/v1/jobs")
    assert REGISTRY.get_sample_value(STATUS, labels) == before + 1


def test_an_odd_method_makes_no_new_label(client: Client) -> None:
    client.generic("BREW", "/v1/models")
    labels = {"status": "401", "view": "models", "method": "<invalid method>"}
    assert REGISTRY.get_sample_value(STATUS, labels)


def test_every_answer_has_the_security_headers(client: Client) -> None:
    answer = client.get("/v1/nothing")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
