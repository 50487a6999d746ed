"""Every error answer that the OpenAPI document names, caused on purpose: each is a whole problem
of the catalogue. A new operation is tried by itself; a status that is not caused by any of the
ways below needs a way of its own, or the test fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.test import Client

from foldline.api.answers import Problem
from foldline.api.openapi import document
from foldline.api.outage import outage
from foldline.artifacts.links import token_for
from foldline.catalog.models import Revision
from foldline.catalog.services import retire
from foldline.errors import CATALOGUE
from foldline.findings import FINDINGS
from foldline.jobs.models import Job
from foldline.notify import deliveries, endpoints
from foldline.tenants.models import ApiKey, Quota, Tenant
from foldline.tenants.services import issue_key

pytestmark = pytest.mark.django_db

MISSING = "0199d3b4-0000-7000-8000-000000000000"
BODY = {"inputs": {"sequence": "EVQ"}}
# Answered by the room of those who wait, for a job that ended while its submit waited:
# tests/foldline/waiting.
BY_THE_ROOM = {("post", "/v1/models/{model}/jobs", 409)}
ERRORS = [
    (method, path, operation, int(status))
    for path, methods in document()["paths"].items()
    for method, operation in methods.items()
    for status in operation["responses"]
    if int(status) >= 400 and (method, path, int(status)) not in BY_THE_ROOM
]
IDS = [f"{method} {path} {status}" for method, path, _, status in ERRORS]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One operation, and who may ask it."""

    method: str
    path: str
    operation: Mapping[str, Any]
    api: Client
    tenant: Tenant
    toy: Revision
    monkeypatch: pytest.MonkeyPatch

    def ask(self, *, by: Client | None = None, query: str = "", **changes: Any) -> Any:
        """The operation as it should be asked, but for the changes."""
        body = {"data": BODY, "content_type": "application/json"} if self.posts else {}
        content = {**body, **changes}
        names = {"model": "toy", "code": "internal", **content.pop("names", {})}
        url = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], MISSING), self.path)
        return getattr(by or self.api, self.method)(url + query, **content)

    @property
    def posts(self) -> bool:
        return self.method == "post"


def client_with(key: str) -> Client:
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {key}"})


def bad_request(asked: Asked) -> Iterator[Any]:
    yield asked.ask(query="?no_such_parameter=1")
    if asked.posts:
        yield asked.ask(data=b"{")
    yield asked.ask(query=f"?key={issue_key(asked.tenant, name='leaked')[1]}")


def no_key(asked: Asked) -> Iterator[Any]:
    yield asked.ask(by=Client(raise_request_exception=False))


def wrong_scope(asked: Asked) -> Iterator[Any]:
    other = {ApiKey.Scope.READ: ApiKey.Scope.SUBMIT, ApiKey.Scope.SUBMIT: ApiKey.Scope.READ}
    for scope in other:
        yield asked.ask(by=client_with(issue_key(asked.tenant, name=scope, scopes=[scope])[1]))


def unknown(asked: Asked) -> Iterator[Any]:
    yield asked.ask(names={"model": "nothing", "code": "nothing"})


def conflict(asked: Asked) -> Iterator[Any]:
    asked.api.post("/v1/models/toy/jobs", BODY, content_type="application/json")
    url = asked.path.replace("{job}", str(Job.objects.get().id))
    yield getattr(asked.api, asked.method)(url)
    endpoint, _ = endpoints.register(asked.tenant.id, url="https://hooks.example.com/")
    yield asked.ask(data={"url": endpoint.url})
    delivery = deliveries.ping(endpoint)
    endpoints.disable(endpoint.id, reason="It broke.")
    url = asked.path.replace("{endpoint}", str(endpoint.id))
    yield getattr(asked.api, asked.method)(url.replace("{delivery}", str(delivery.id)))


def gone(asked: Asked) -> Iterator[Any]:
    retire(asked.toy)
    yield asked.ask()
    asked.monkeypatch.setattr("foldline.artifacts.links.LINK_S", -1)
    yield asked.ask(names={"token": token_for(uuid4(), tenant_id=asked.tenant.id)})


def no_length(asked: Asked) -> Iterator[Any]:
    url = asked.path.replace("{model}", "toy")
    yield asked.api.generic("POST", url, b"{}", "application/json", CONTENT_LENGTH="x")


def too_large(asked: Asked) -> Iterator[Any]:
    url = asked.path.replace("{model}", "toy")
    yield asked.api.generic("POST", url, b"{}", "application/json", CONTENT_LENGTH=str(2**40))


def other_type(asked: Asked) -> Iterator[Any]:
    yield asked.ask(data=b"x", content_type="text/plain")
    yield asked.ask(headers={"Content-Encoding": "gzip"})


def wrong_input(asked: Asked) -> Iterator[Any]:
    yield asked.ask(data={"inputs": {}})
    asked.api.post("/v1/models/toy/jobs", BODY, content_type="application/json")
    error = {"code": "invalid_input", **_members("invalid_input")}
    Job.objects.update(state="failed", error=error)
    url = asked.path.replace("{job}", str(Job.objects.get().id))
    yield getattr(asked.api, asked.method)(url)
    for session in "ab":  # one key, two payloads
        batch = {"session": session, "jobs": [{"model": "toy", **BODY}]}
        yield asked.ask(data=batch, headers={"Idempotency-Key": "k"})


def over_limit(asked: Asked) -> Iterator[Any]:
    Quota.objects.create(tenant=asked.tenant, requests_per_minute=1, polls_per_minute=1)
    for _ in range(3):
        yield asked.ask()


def broken(asked: Asked) -> Iterator[Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret detail")

    asked.monkeypatch.setattr("rest_framework.views.APIView.initial", fail)
    asked.monkeypatch.setattr("foldline.api.views.submit.caller_of", fail)
    yield asked.ask()


def away(asked: Asked) -> Iterator[Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OperationalError("secret detail")

    asked.monkeypatch.setattr("rest_framework.views.APIView.initial", fail)
    asked.monkeypatch.setattr("foldline.api.views.submit.caller_of", fail)
    yield asked.ask()
    outage.clear()


WAYS: Mapping[int, Callable[[Asked], Iterator[Any]]] = {
    400: bad_request,
    401: no_key,
    403: wrong_scope,
    404: unknown,
    409: conflict,
    410: gone,
    411: no_length,
    413: too_large,
    415: other_type,
    422: wrong_input,
    429: over_limit,
    500: broken,
    503: away,
}


def _members(code: str) -> dict[str, Any]:
    kind = CATALOGUE[code]
    return {
        "type": f"/v1/errors/{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": kind.description(),
        "retryable": kind.retryable,
        "fault": kind.fault,
        "suggested_action": kind.suggested_action,
    }


@pytest.mark.usefixtures("unsent")
@pytest.mark.parametrize(("method", "path", "operation", "status"), ERRORS, ids=IDS)
def test_an_error_that_the_document_names_is_a_whole_problem(
    method: str, path: str, operation: Mapping[str, Any], status: int, api: Client,
    tenant: Tenant, toy: Revision, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked = Asked(
        method=method, path=path, operation=operation, api=api, tenant=tenant, toy=toy,
        monkeypatch=monkeypatch,
    )  # fmt: skip
    caused = []
    for answer in WAYS[status](asked):
        caused.append(answer.status_code)
        if answer.status_code >= 400:
            whole(answer)
        if answer.status_code == status:
            break
    assert status in caused


def whole(answer: Any) -> None:
    """A problem has every member that its entry in the catalogue promises."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = answer.json()
    Problem.model_validate(body)
    kind = CATALOGUE[body["code"]]
    assert body["status"] == answer.status_code == kind.status
    assert body["type"] == f"/v1/errors/{kind.code}"
    assert body["fault"] == kind.fault
    assert body["retryable"] is kind.retryable
    assert body["suggested_action"] == kind.suggested_action != ""
    assert body["title"] == kind.title
    assert body["detail"]
    assert body["request_id"] == answer.headers["X-Request-ID"]
    assert "secret" not in answer.content.decode()
    for found in body.get("errors", []):
        assert found.keys() == {"pointer", "code", "got", "expected", "hint"}
        assert found["code"] in FINDINGS
