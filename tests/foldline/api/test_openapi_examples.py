"""Every example of the document is sent, or held against what it is an example of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest
from django.test import Client

from foldline.api.openapi import document
from foldline.catalog.models import Revision
from foldline.environment import ROOT

DOCUMENT: dict[str, Any] = document()
SCHEMAS = DOCUMENT["components"]["schemas"]

# What an example is sent to, where the path does not say.
MODEL = "flash_abb"


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return SCHEMAS[name] if name else schema


def bodies() -> Iterator[Any]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" not in content:
                continue
            examples = resolved(content["application/json"]["schema"]).get("examples", [])
            for number, example in enumerate(examples):
                yield pytest.param(method, path, example, id=f"{method} {path} {number}")


def described(schema: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """Every schema with examples, with each of them."""
    if isinstance(schema, dict):
        examples = schema.get("examples")
        if isinstance(examples, list):
            yield from ((schema, example) for example in examples)
        for part in schema.values():
            yield from described(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from described(part)


@pytest.mark.django_db
@pytest.mark.parametrize(("method", "path", "example"), list(bodies()))
def test_every_body_that_is_shown_is_accepted(
    api: Client,
    unsent: None,
    live_revision: Callable[..., Revision],
    method: str,
    path: str,
    example: Any,
) -> None:
    for folder in (ROOT / "model_plugins").glob("*/manifest.toml"):
        live_revision(folder=folder.parent)
    url = re.sub(r"\{model\}", MODEL, path)
    answer = getattr(api, method)(url, example, content_type="application/json")
    assert 200 <= answer.status_code < 300, answer.content


def test_every_body_has_an_example() -> None:
    wanting = [
        f"{method} {path}"
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
        if kind == "application/json" and not resolved(content["schema"]).get("examples")
    ]
    assert wanting == []


def test_every_example_is_of_the_kind_it_stands_for() -> None:
    for schema, example in described(SCHEMAS):
        jsonschema_rs.validate({**schema, "components": DOCUMENT["components"]}, example)
