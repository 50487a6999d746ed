"""schemathesis reads the document and holds the running service against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import settings
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance

from foldline.api.openapi import document
from tests.house import House, built
from tests.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.processes

EXAMPLES = 60  # a route

# Rules that the schema of one call cannot say. Their refusals have tests of their own.
UNSAID = {
    "submit": "what the model's own schema asks for",
    "estimate": "what the model's own schema asks for",
    "upload": "what is printable, and no name of a folder",
    "usage": "at most 92 days between two parameters",
}

config = SchemathesisConfig(
    projects=ProjectsConfig(
        default=ProjectConfig(
            generation=GenerationConfig(deterministic=True, database="none"),
            request_timeout=20,
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
    return {
        "job": [waiting, cancelled],
        "model": ["sleepy", "dice"],
        "artifact": [uploaded["id"]],
    }


@schema.parametrize()
@settings(max_examples=EXAMPLES)
def test_the_service_is_what_its_document_says(
    case: schemathesis.Case[Any], house: House, there: Mapping[str, Sequence[str]]
) -> None:
    for name, text in case.path_parameters.items():
        known = there[name]
        choice = len(str(text)) % (len(known) + 1)
        if choice:
            case.path_parameters[name] = known[choice - 1]
    unsaid = case.operation.definition.raw["operationId"] in UNSAID
    case.call_and_validate(
        base_url=f"http://127.0.0.1:{house.port}",
        headers={"Authorization": f"Bearer {house.key}"},
        excluded_checks=[positive_data_acceptance] if unsaid else [],
    )
