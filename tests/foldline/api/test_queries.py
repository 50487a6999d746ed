"""A query parameter that nobody reads is refused, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from foldline.api.openapi import document

pytestmark = pytest.mark.django_db
Submit = Callable[..., Any]  # the test client's answer

OPERATIONS = [(method, path) for path, methods in document()["paths"].items() for method in methods]


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=" ".join)
def test_a_parameter_that_nobody_knows_is_a_400_everywhere(
    api: Client, method: str, path: str
) -> None:
    address = re.sub(r"\{\w+\}", "x", path)
    answer = api.generic(method.upper(), f"{address}?nothing=1")
    assert answer.status_code == 400, answer.content
    (found,) = answer.json()["errors"]
    assert (found["pointer"], found["code"]) == ("?nothing", "unknown_parameter")


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
