"""Waiting while Redis, the database or the gateway itself goes away: real processes."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.house import Answer, House, Process, built
from tests.postgres_server import PostgresServer, running_postgres
from tests.redis_server import RedisServer, running_redis
from tests.worker_process import wait_until

pytestmark = pytest.mark.processes

Break = Callable[[RedisServer], None]
BREAKS: dict[str, tuple[Break, Break]] = {
    "stopped": (RedisServer.kill, RedisServer.start),
    "frozen": (RedisServer.freeze, RedisServer.thaw),
}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, redis: RedisServer
) -> Iterator[House]:
    with built(tmp_path_factory.mktemp("house"), redis=redis, postgres=postgres) as house:
        yield house


@pytest.fixture
def gateway(house: House) -> Iterator[Process]:
    process = house.start_gateway()
    yield process
    process.signal(signal.SIGTERM)
    assert process.running.wait(20) == 0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


class Stream:
    """A stream of events, read in a thread of its own."""

    def __init__(self, house: House, job: str) -> None:
        self.text = ""
        self.ended = threading.Event()
        connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=60)
        headers = {"Authorization": f"Bearer {house.key}"}
        connection.request("GET", f"/v1/jobs/{job}/events", headers=headers)
        self._connection, self._answer = connection, connection.getresponse()
        threading.Thread(target=self._read).start()
        wait_until(lambda: "event: state" in self.text)

    def _read(self) -> None:
        while piece := self._answer.read1():
            self.text += piece.decode()
        self._connection.close()
        self.ended.set()


def poll(house: House, pool: ThreadPoolExecutor, job: str, *, seconds: int) -> Future[Answer]:
    """A long poll from the job as it is now: it misses no change, whenever it begins."""
    tag = house.get(f"/v1/jobs/{job}").headers["etag"]
    path = f"/v1/jobs/{job}?wait={seconds}"
    return pool.submit(lambda: house._ask("GET", path, headers={"If-None-Match": tag}))


def cancel(house: House, job: str) -> None:
    assert house.post(f"/v1/jobs/{job}/cancel", {}).status == 200


@pytest.mark.parametrize("how", BREAKS)
def test_without_redis_a_change_is_seen_all_the_same(
    house: House, redis: RedisServer, gateway: Process, pool: ThreadPoolExecutor, how: str
) -> None:
    away, back = BREAKS[how]
    away(redis)
    try:
        job = house.accepted()
        asked, stream = poll(house, pool, job, seconds=30), Stream(house, job)
        cancel(house, job)
        assert asked.result(3).body["state"] == "cancelled"
        assert stream.ended.wait(3)
        assert '"cancelled"' in stream.text
    finally:
        back(redis)


@pytest.mark.parametrize("how", BREAKS)
def test_redis_may_go_away_and_come_back_while_somebody_waits(
    house: House, redis: RedisServer, gateway: Process, pool: ThreadPoolExecutor, how: str
) -> None:
    away, back = BREAKS[how]
    first, second = house.accepted(), house.accepted()
    polls = [poll(house, pool, job, seconds=40) for job in (first, second)]
    streams = [Stream(house, job) for job in (first, second)]
    subscribed(redis)
    away(redis)
    try:
        cancel(house, first)
        assert polls[0].result(10).body["state"] == "cancelled"
        assert streams[0].ended.wait(10)
    finally:
        back(redis)
    subscribed(redis)
    cancel(house, second)
    assert polls[1].result(3).body["state"] == "cancelled"
    assert streams[1].ended.wait(3)


def subscribed(redis: RedisServer) -> None:
    def heard() -> bool:
        with redis.client() as client:
            return bool(client.pubsub_numsub("foldline.news")[0][1])

    wait_until(heard, within_s=10)


def test_a_database_that_is_away_ends_no_wait_and_is_503_when_the_time_is_over(
    house: House, postgres: PostgresServer, gateway: Process, pool: ThreadPoolExecutor
) -> None:
    job = house.accepted()
    asked = poll(house, pool, job, seconds=4)
    waiting(house, 1)
    postgres.stop(mode="immediate")
    try:
        answer = asked.result(10)
        assert answer.seconds >= 4
        assert (answer.status, answer.body["code"]) == (503, "database_unavailable")
        assert answer.headers["retry-after"]
    finally:
        postgres.start()


def test_a_wait_outlives_a_restart_of_the_database(
    house: House, postgres: PostgresServer, gateway: Process, pool: ThreadPoolExecutor
) -> None:
    job = house.accepted()
    asked, stream = poll(house, pool, job, seconds=40), Stream(house, job)
    waiting(house, 2)
    postgres.restart(mode="immediate")
    wait_until(lambda: house.get(f"/v1/jobs/{job}").status == 200)
    cancel(house, job)
    assert asked.result(8).body["state"] == "cancelled"
    assert stream.ended.wait(8)


def waiting(house: House, number: int) -> None:
    """Until so many callers wait."""
    url = f"http://127.0.0.1:{house.port}/metrics"
    wait_until(lambda: f"\nfoldline_waits {number}.0\n" in httpx.get(url).text)


def test_sigterm_answers_everybody_who_waits_and_ends_in_order(
    house: House, gateway: Process, pool: ThreadPoolExecutor
) -> None:
    job = house.accepted()
    preferring: dict[str, Any] = {"inputs": {"seconds": 0, "echo": "prefers to wait"}}
    polls = [pool.submit(lambda: house.get(f"/v1/jobs/{job}?wait=50")) for _ in range(3)]
    asked = pool.submit(
        lambda: house.post("/v1/models/sleepy/jobs", preferring, headers={"Prefer": "wait=50"})
    )
    streams = [Stream(house, job) for _ in range(3)]
    waiting(house, 7)
    gateway.signal(signal.SIGTERM)
    assert [each.result(10).status for each in polls] == [200] * 3
    assert {each.result().body["state"] for each in polls} == {"queued"}
    assert asked.result(10).status == 202
    for stream in streams:
        assert stream.ended.wait(10)
        assert stream.text.endswith(": come again\nretry: 2000\n\n")
    assert gateway.running.wait(15) == 0
    assert "Traceback" not in gateway.told()
    assert "timeout graceful shutdown" not in gateway.told()


def test_a_worker_s_writes_wake_who_waits(
    house: House, gateway: Process, pool: ThreadPoolExecutor
) -> None:
    house.start_worker()
    job = house.accepted(seconds=1)
    stream = Stream(house, job)
    assert stream.ended.wait(20)
    states = [json.loads(line[6:]).get("state") for line in stream.text.splitlines() if "{" in line]
    assert [state for state in states if state] == ["queued", "running", "succeeded"]
