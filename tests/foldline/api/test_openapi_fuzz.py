"""schemathesis reads the document and holds the running service against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import settings
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
)

from foldline.api.openapi import document
from tests.house import House, built
from tests.redis_server import RedisServer, running_redis

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1800)]

EXAMPLES = 60  # a route

# What the schema of one call cannot say, and so is not asked. It has tests of its own.
UNSAID: Mapping[str, Sequence[Any]] = {
    # what the models' own schemas ask for; a broken item of a batch is refused by itself
    "submit": [positive_data_acceptance],
    "estimate": [positive_data_acceptance],
    "batches": [positive_data_acceptance, negative_data_rejection],
    # what is printable, and no name of a folder
    "upload": [positive_data_acceptance],
    # one parameter goes by another: 92 days, a time with a wait
    "usage": [positive_data_acceptance],
    "batch": [positive_data_acceptance],
    # which hosts may be called
    "registerwebhook": [positive_data_acceptance],
    # events of this job; the stream is documented as text, and read here event by event
    "events": [positive_data_acceptance, response_schema_conformance],
}

config = SchemathesisConfig(
    projects=ProjectsConfig(
        default=ProjectConfig(
            generation=GenerationConfig(
                deterministic=True, database="none", with_security_parameters=False
            ),
            request_timeout=120,
        )
    )
)
schema = schemathesis.openapi.from_dict(document(), config=config)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> Iterator[House]:
    with built(tmp_path_factory.mktemp("house"), redis=redis) as house:
        house.start_gateway()
        yield house


@pytest.fixture(scope="module")
def there(house: House) -> Mapping[str, Sequence[str]]:
    """What is there, by the name of the path's parameter: else every answer were a 404."""
    waiting, cancelled = house.accepted(), house.accepted()
    assert house.post(f"/v1/jobs/{cancelled}/cancel", {}).status == 200
    uploaded = httpx.post(
        f"http://127.0.0.1:{house.port}/v1/artifacts?name=a.pdb",
        content=b"ATOM",
        headers={"Authorization": f"Bearer {house.key}"},
    ).json()
    batch = house.post("/v1/batches", {"jobs": [{"model": "sleepy", "inputs": {"seconds": 0}}]})
    endpoint = house.post("/v1/webhook-endpoints", {"url": "https://hooks.example.com/"}).body["id"]
    assert house.post(f"/v1/webhook-endpoints/{endpoint}/test", {}).status < 300
    (delivery,) = house.get(f"/v1/webhook-endpoints/{endpoint}/deliveries").body["deliveries"]
    return {
        "job": [waiting, cancelled],
        "model": ["sleepy", "dice"],
        "artifact": [uploaded["id"]],
        "batch": [batch.body["id"]],
        "endpoint": [endpoint],
        "delivery": [delivery["id"]],
        "code": ["internal"],
        "token": [uploaded["urls"]["download"].rpartition("/")[2]],
    }


@schema.parametrize()
@settings(max_examples=EXAMPLES)
def test_the_service_is_what_its_document_says(
    case: schemathesis.Case[Any], house: House, there: Mapping[str, Sequence[str]]
) -> None:
    operation = case.operation.definition.raw["operationId"]
    for name, text in case.path_parameters.items():
        # Nobody works here: a stream of a job that waits would not end.
        known = there[name][1:] if operation == "events" else there[name]
        choice = len(str(text)) % (len(known) + 1)
        if choice:
            case.path_parameters[name] = known[choice - 1]
    _hurry(case)
    case.call_and_validate(
        base_url=f"http://127.0.0.1:{house.port}",
        headers={"Authorization": f"Bearer {house.key}"},
        excluded_checks=list(UNSAID.get(operation, [])),
    )


def _hurry(case: schemathesis.Case[Any]) -> None:
    """Who asks to wait in earnest waits a second."""
    query = dict(case.query or {})
    for name in ("wait", "timeout_s"):
        if str(query.get(name, "")).isdecimal() and 1 <= int(query[name]) <= 50:
            query[name] = "1"
    if query.get("wait") in ("any", "all"):
        query.setdefault("timeout_s", "1")
    case.query = query
    if "Prefer" in case.headers:
        del case.headers["Prefer"]
