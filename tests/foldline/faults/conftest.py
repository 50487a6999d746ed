"""A whole Foldline per file of tests, on PostgreSQL, whose parts the tests take away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house import House, built
from tests.postgres_server import PostgresServer, running_postgres
from tests.redis_server import RedisServer, running_redis


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, redis: RedisServer
) -> Iterator[House]:
    """With a gateway. Workers and the sweeper are for the test to start, and end with it."""
    with built(tmp_path_factory.mktemp("house"), redis=redis, postgres=postgres) as house:
        house.start_gateway()
        yield house


@pytest.fixture
def processes(house: House, postgres: PostgresServer) -> Iterator[None]:
    """What the test starts in the house ends after it, and finds no work from before it."""
    with postgres.connect() as connection:
        connection.execute(
            "update jobs_job set state = 'cancelled', finished_at = now()"
            " where state in ('queued', 'running')"
        )
    before = len(house.processes)
    yield
    for process in house.processes[before:]:
        process.kill()
    del house.processes[before:]
