"""The document, and what follows from it: the same list of questions for every route."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.validation import validate_schema

from foldline.api.openapi import document
from foldline.environment import ROOT

MISSING = "0199d3b4-0000-7000-8000-000000000000"
DOCUMENT: dict[str, Any] = document()
OPERATIONS = [
    (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
IDS = [f"{method} {path}" for method, path, _ in OPERATIONS]


def routes(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        here = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, here)
        else:
            yield "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", here), pattern


def test_the_document_is_valid_openapi_3_1() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    validate_schema(DOCUMENT)  # type: ignore[no-untyped-call]  # drf-spectacular


def test_every_route_is_in_the_document_and_the_other_way_round() -> None:
    served = {
        (method, path)
        for path, pattern in routes(get_resolver().url_patterns)
        if path.startswith("/v1/")
        for method in ("get", "post", "put", "patch", "delete")
        if hasattr(pattern.callback.view_class, method)  # type: ignore[attr-defined]  # a view
    }
    assert served == {(method, path) for method, path, _ in OPERATIONS}


def test_the_committed_document_is_the_one_that_is_served() -> None:
    """A change of the contract is a diff to be read."""
    committed = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    assert committed == json.loads(json.dumps(DOCUMENT)), "run `make openapi` and read the diff"


def test_the_document_is_served_without_a_key(client: Client) -> None:
    answer = client.get("/v1/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["paths"].keys() == DOCUMENT["paths"].keys()


def test_a_submit_is_described_with_an_example() -> None:
    schema = DOCUMENT["components"]["schemas"]["SubmitBody"]
    assert schema["examples"][0]["inputs"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {
        "inputs",
        "seed",
        "priority",
        "session",
        "deadline_s",
        "start_within_s",
        "no_cache",
        "webhook",
        "next",
        "on_unavailable",
    }


def test_the_key_is_a_bearer_token() -> None:
    (scheme,) = DOCUMENT["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=IDS)
def test_every_operation_says_what_it_does_and_describes_its_errors(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    assert operation["summary"]
    assert operation["operationId"]
    for status, response in operation["responses"].items():
        if int(status) >= 400:
            (kind,) = response["content"]
            assert kind == "application/problem+json"


WITH_KEY = [o for o in OPERATIONS if o[2].get("security") != [{}] and o[2].get("security")]


@pytest.mark.django_db
@pytest.mark.parametrize(("method", "path", "operation"), WITH_KEY, ids=lambda v: str(v)[:40])
def test_every_operation_needs_a_key(
    client: Client, method: str, path: str, operation: dict[str, Any]
) -> None:
    assert {"401", "403"} <= operation["responses"].keys()
    url = re.sub(r"\{\w+\}", MISSING, path)
    answer = getattr(client, method)(url, content_type="application/json")
    assert answer.status_code == 401


def test_only_what_concerns_nobody_in_particular_is_public() -> None:
    assert {path for _, path, _ in OPERATIONS} - {path for _, path, _ in WITH_KEY} == {
        "/v1/openapi.json",
        "/v1/calibration",
        "/v1/downloads/{token}",
        "/v1/errors",
        "/v1/errors/{code}",
    }
