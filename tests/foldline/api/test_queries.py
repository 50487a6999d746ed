"""A query parameter that nobody reads is refused, wherever a key is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from foldline.api.openapi import document

pytestmark = pytest.mark.django_db
Submit = Callable[..., Any]  # the test client's answer

OPERATIONS = [
    (method, path, bool(operation.get("security")))
    for path, methods in document()["paths"].items()
    for method, operation in methods.items()
]
WITH_KEY = [(method, path) for method, path, with_key in OPERATIONS if with_key]
WITHOUT = [path for _, path, with_key in OPERATIONS if not with_key]


@pytest.mark.parametrize(("method", "path"), WITH_KEY, ids=" ".join)
def test_a_parameter_that_nobody_knows_is_a_400(api: Client, method: str, path: str) -> None:
    address = re.sub(r"\{\w+\}", "x", path)
    answer = api.generic(method.upper(), f"{address}?nothing=1")
    assert answer.status_code == 400, answer.content
    (found,) = answer.json()["errors"]
    assert (found["pointer"], found["code"]) == ("?nothing", "unknown_parameter")


@pytest.mark.parametrize("path", WITHOUT)
def test_a_link_leads_to_the_same_when_a_chat_has_added_its_mark(client: Client, path: str) -> None:
    address = path.replace("{code}", "internal").replace("{token}", "x")
    plain, marked = (
        client.get(address),
        client.get(f"{address}?utm_source=chat.example&utm_source="),
    )
    assert plain.status_code == marked.status_code == (404 if "downloads" in path else 200)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/models/toy/jobs"), ("POST", "/v1/batches"), ("GET", "/v1/jobs/x/result")],
)
def test_who_would_wait_where_none_can_is_told_how(api: Client, method: str, path: str) -> None:
    answer = api.generic(method, f"{path}?wait=5")
    (found,) = answer.json()["errors"]
    assert found["expected"] == "no parameter"
    assert "Prefer: wait=n" in found["hint"]


def test_without_a_key_the_key_comes_first(client: Client) -> None:
    assert client.get("/v1/models?nothing=1").status_code == 401
