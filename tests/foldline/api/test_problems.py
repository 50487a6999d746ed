from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path

from foldline.api.problems import as_error
from foldline.jobs.models import Job

Submit = Callable[..., Any]  # the test client's answer


def broken(_request: HttpRequest) -> HttpResponse:
    raise RuntimeError("secret detail")


def suspicious(_request: HttpRequest) -> HttpResponse:
    raise SuspiciousOperation("secret detail")


urlpatterns = [
    path("v1/broken", broken),
    path("v1/suspicious", suspicious),
    path("admin/broken", broken),
    path("admin/suspicious", suspicious),
    path("admin/outage", lambda _request: HttpResponse(Job.objects.count())),
    path("", include("foldline.urls")),
]
handler400 = "foldline.api.problems.bad_request"
handler404 = "foldline.api.problems.not_found"
handler500 = "foldline.api.problems.server_error"


def down(*_: Any) -> Any:
    raise OperationalError("connection refused by secret-host")


def told(answer: Any) -> dict[str, Any]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == answer.status_code
    assert body["request_id"] == answer.headers["X-Request-ID"] != ""
    assert "secret" not in answer.content.decode()
    return body


@pytest.mark.parametrize(
    "url", ["/v1/", "/v1/nothing", "/nothing", "/v1/jobs/x/y/z", "/v1/jobs/", "/mcp/"]
)
def test_an_unknown_address_is_a_404(client: Client, url: str) -> None:
    answer = client.get(url)
    assert answer.status_code == 404
    body = told(answer)
    assert body["code"] == "not_found"
    assert ("slash" in body["detail"]) == url.endswith("/")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "url", "allowed"),
    [
        ("delete", "/v1/jobs", "GET, HEAD"),
        ("put", "/v1/models/toy/jobs", "POST"),
        ("get", "/v1/models/toy/jobs", "POST"),
        ("options", "/v1/models", "GET, HEAD"),
        ("patch", "/v1/artifacts", "POST"),
    ],
)
def test_another_method_is_a_405_that_tells_the_right_ones(
    api: Client, method: str, url: str, allowed: str
) -> None:
    answer = getattr(api, method)(url)
    assert answer.status_code == 405
    assert told(answer)["code"] == "method_not_allowed"
    assert answer.headers["Allow"] == allowed


@pytest.mark.urls(__name__)
def test_a_bug_is_a_500_that_tells_nothing_of_the_inside(client: Client) -> None:
    answer = client.get("/v1/broken")
    assert answer.status_code == 500
    assert told(answer)["code"] == "internal"


@pytest.mark.urls(__name__)
def test_a_suspicious_request_is_a_400(client: Client) -> None:
    assert told(client.get("/v1/suspicious"))["code"] == "invalid_request"


@pytest.mark.urls(__name__)
@pytest.mark.django_db
class TestPeople:
    """They get pages that say what to do, with a way back."""

    BROWSER: ClassVar = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    def page(self, answer: Any, status: int) -> str:
        assert answer.status_code == status
        assert answer.headers["Content-Type"].startswith("text/html")
        text = str(answer.content.decode())
        assert "secret" not in text
        return text

    def test_an_unknown_address(self, client: Client, admin_client: Client) -> None:
        for answer in (
            client.get("/nothing", headers=self.BROWSER),
            admin_client.get("/admin/nothing/"),
        ):
            assert 'href="/"' in self.page(answer, 404)

    def test_an_unknown_address_of_the_api_stays_a_problem(self, client: Client) -> None:
        assert told(client.get("/v1/nothing", headers=self.BROWSER))["code"] == "not_found"

    def test_a_bug_with_the_id_to_find_it_by(self, client: Client) -> None:
        answer = client.get("/admin/broken", headers={"X-Request-ID": "my-request"})
        assert "my-request" in self.page(answer, 500)

    def test_a_database_that_is_down(self, client: Client) -> None:
        with connection.execute_wrapper(down):
            answer = client.get("/admin/outage")
        assert "does not answer" in self.page(answer, 503)
        assert answer.headers["Retry-After"] == "5"

    def test_a_suspicious_request(self, client: Client) -> None:
        assert "Go back" in self.page(client.get("/admin/suspicious"), 400)

    def test_a_name_that_is_not_ours(self, client: Client) -> None:
        answer = client.get("/", headers={**self.BROWSER, "Host": "elsewhere.example"})
        assert "FOLDLINE_HOSTS" in self.page(answer, 400)

    def test_what_one_may_not_do(self, client: Client, django_user_model: Any) -> None:
        client.force_login(django_user_model.objects.create(username="bob", is_staff=True))
        assert 'href="/admin/"' in self.page(client.get("/admin/jobs/job/"), 403)

    def test_a_form_that_is_too_old(self) -> None:
        answer = Client(enforce_csrf_checks=True).post("/admin/login/")
        assert "Nothing was" in self.page(answer, 403)


@pytest.mark.django_db
def test_a_bug_in_a_view_is_logged_with_the_requests_id(
    submit: Submit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_submission: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("foldline.jobs.services.submit", fail)
    answer = submit(X_Request_ID="my-request")
    assert answer.status_code == 500
    assert told(answer)["request_id"] == "my-request"
    (record,) = [r for r in caplog.records if r.name == "foldline.api.problems"]
    assert record.request_id == "my-request"  # type: ignore[attr-defined]  # an extra
    assert record.exc_info is not None


@pytest.mark.django_db
def test_a_database_that_is_down_is_a_503_that_says_when_to_come_back(
    submit: Submit, api: Client
) -> None:
    submit()
    with connection.execute_wrapper(down):
        answers = [submit(), api.get("/v1/jobs"), api.get("/v1/models")]
    for answer in answers:
        assert answer.status_code == 503
        assert told(answer)["code"] == "database_unavailable"
        assert answer.headers["Retry-After"] == "5"
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_a_key_cannot_be_checked_while_the_database_is_down(api: Client) -> None:
    with connection.execute_wrapper(down):
        assert api.get("/v1/models").status_code == 503


@pytest.mark.parametrize("error", [OperationalError("x"), InterfaceError("connection closed")])
def test_a_lost_connection_is_no_bug(error: Exception) -> None:
    assert as_error(error).code == "database_unavailable"


@pytest.mark.parametrize(
    ("given", "kept"),
    [("abc-123:x.y_z", True), ("a" * 64, True), ("a" * 65, False), ("a b", False), ("<x>", False)],
)
def test_a_plain_request_id_is_kept_and_any_other_replaced(
    client: Client,
    given: str,
    kept: bool,  # noqa: FBT001 - a parameter
) -> None:
    answer = client.get("/v1/nothing", headers={"X-Request-ID": given})
    assert (answer.headers["X-Request-ID"] == given) is kept
    assert told(answer)
