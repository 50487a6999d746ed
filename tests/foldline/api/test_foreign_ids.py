"""For every route of the OpenAPI document that names something by an id: what belongs to
another tenant answers exactly as what does not exist. A new route is asked by itself; a new
kind of id needs an example below, or the test fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from foldline.api.openapi import document

Submit = Callable[..., Any]  # the test client's answer

MISSING = "0199d3b4-0000-7000-8000-000000000000"
OPERATIONS = [
    (method, path, operation)
    for path, methods in document()["paths"].items()
    for method, operation in methods.items()
]
PARAMETER = re.compile(r"\{(\w+)\}")
# The same for every tenant; a link is for whoever has it, and test_artifacts asks for forged ones.
NOT_OWNED = {"model", "code", "token"}
WITH_ID = [
    (method, path, operation)
    for method, path, operation in OPERATIONS
    if set(PARAMETER.findall(path)) - NOT_OWNED
]


def a_job(submit: Submit, _api: Client) -> str:
    return str(submit().json()["id"])


def an_artifact(_submit: Submit, api: Client) -> str:
    return str(api.post("/v1/artifacts", b"x", content_type="text/plain").json()["id"])


def an_endpoint(_submit: Submit, api: Client) -> str:
    url = f"https://hooks.example.com/{uuid4()}"
    body = {"url": url}
    made = api.post("/v1/webhook-endpoints", body, content_type="application/json")
    return str(made.json()["id"])


def a_delivery(api: Client, endpoint: str) -> str:
    sent = api.post(f"/v1/webhook-endpoints/{endpoint}/test")
    return str(sent.json()["id"])


def a_batch(_submit: Submit, api: Client) -> str:
    body = {"jobs": [{"model": "toy", "inputs": {"sequence": "EVQ"}}]}
    return str(api.post("/v1/batches", body, content_type="application/json").json()["id"])


# What a tenant owns, by the name of the path's parameter. "Mine" is made by `tenant`.
EXAMPLES: Mapping[str, Callable[[Submit, Client], str]] = {
    "job": a_job,
    "artifact": an_artifact,
    "endpoint": an_endpoint,
    "delivery": lambda submit, api: a_delivery(api, an_endpoint(submit, api)),
    "batch": a_batch,
}
# JSON a method needs so that only the id can be wrong, by operation.
BODIES: Mapping[str, Any] = {}


def test_every_kind_of_id_has_an_example() -> None:
    named = {name for _, path, _ in OPERATIONS for name in PARAMETER.findall(path)}
    assert named <= EXAMPLES.keys() | NOT_OWNED
    assert WITH_ID


def owned(names: set[str], submit: Submit, api: Client) -> dict[str, str]:
    """One of each; a delivery is one of the endpoint."""
    mine = {name: EXAMPLES[name](submit, api) for name in names if name != "delivery"}
    if "delivery" in names:
        mine["delivery"] = a_delivery(api, mine["endpoint"])
    return mine


def ask(
    by: Client, method: str, path: str, operation: Mapping[str, Any], ids: Mapping[str, str]
) -> Any:
    url = PARAMETER.sub(lambda found: ids.get(found[1], "toy"), path)
    return getattr(by, method)(
        url,
        BODIES.get(operation["operationId"]),
        content_type="application/json",
        headers={"X-Request-ID": "same"},
    )


def seen(answer: Any) -> tuple[int, bytes, dict[str, str]]:
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return answer.status_code, content, dict(answer.headers)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "path", "operation"), WITH_ID, ids=[f"{m} {p}" for m, p, _ in WITH_ID]
)
def test_anothers_id_answers_exactly_like_a_missing_one(
    submit: Submit,
    api: Client,
    other_api: Client,
    method: str,
    path: str,
    operation: Mapping[str, Any],
) -> None:
    names = set(PARAMETER.findall(path)) - NOT_OWNED
    mine = owned(names, submit, api)
    foreign = seen(ask(other_api, method, path, operation, mine))
    missing = seen(ask(other_api, method, path, operation, dict.fromkeys(names, MISSING)))
    assert foreign[0] == 404
    assert foreign == missing
    for odd in ("nonsense", "%00", "0" * 300, mine[min(names)].upper()[:-1]):
        assert seen(ask(other_api, method, path, operation, dict.fromkeys(names, odd))) == missing
    # The owner gets something else: the id was no nonsense, and nothing happened to it.
    assert seen(ask(api, method, path, operation, mine))[0] != 404


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "path", "operation"), WITH_ID, ids=[f"{m} {p}" for m, p, _ in WITH_ID]
)
def test_anothers_id_in_other_letters_is_still_anothers(
    submit: Submit, api: Client, other_api: Client, method: str, path: str,
    operation: Mapping[str, Any],
) -> None:  # fmt: skip
    names = set(PARAMETER.findall(path)) - NOT_OWNED
    mine = owned(names, submit, api)
    for spelled in (str.upper, lambda name: name.replace("-", ""), lambda name: f"{{{name}}}"):
        ids = {name: spelled(one) for name, one in mine.items()}
        assert ask(other_api, method, path, operation, ids).status_code == 404


@pytest.mark.django_db
def test_anothers_file_in_the_inputs_answers_exactly_like_a_missing_one(
    submit: Submit, api: Client, other_api: Client
) -> None:
    answers = []
    for name in (an_artifact(submit, api), MISSING):
        body = {"inputs": {"sequence": "EVQ", "template": name}}
        answer = submit(body, by=other_api, X_Request_ID="same")
        answers.append((answer.status_code, answer.content.replace(name.encode(), b"it")))
    assert answers[0][0] == 422
    assert answers[0] == answers[1]
