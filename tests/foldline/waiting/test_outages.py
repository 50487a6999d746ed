"""Waiting while Redis, the database or the gateway itself goes away: real processes."""

from __future__ import annotations

import http.client
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.house import Answer, House, Process, built
from tests.postgres_server import PostgresServer, running_postgres
from tests.redis_server import RedisServer, running_redis
from tests.worker_process import wait_until

pytestmark = pytest.mark.processes

Break = Callable[[RedisServer], None]
POLL_S = 50
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
    assert process.running.wait(60) == 0


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

    def until_ended(self) -> None:
        assert self.ended.wait(60), self.text


def poll(
    house: House, pool: ThreadPoolExecutor, job: str, *, seconds: int = POLL_S
) -> Future[Answer]:
    """A long poll from the job as it is now: it misses no change, whenever it begins."""
    tag = house.get(f"/v1/jobs/{job}").headers["etag"]
    path = f"/v1/jobs/{job}?wait={seconds}"
    return pool.submit(lambda: house._ask("GET", path, headers={"If-None-Match": tag}))


def cancelled(asked: Future[Answer]) -> bool:
    """Whether the poll told so, before its time was over."""
    answer = asked.result()
    return answer.body["state"] == "cancelled" and answer.seconds < POLL_S


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
        asked, stream = poll(house, pool, job), Stream(house, job)
        cancel(house, job)
        assert cancelled(asked)
        stream.until_ended()
        assert '"cancelled"' in stream.text
    finally:
        back(redis)


@pytest.mark.parametrize("how", BREAKS)
def test_redis_may_go_away_and_come_back_while_somebody_waits(
    house: House, redis: RedisServer, gateway: Process, pool: ThreadPoolExecutor, how: str
) -> None:
    away, back = BREAKS[how]
    first, second = house.accepted(), house.accepted()
    polls = [poll(house, pool, job) for job in (first, second)]
    streams = [Stream(house, job) for job in (first, second)]
    subscribed(redis)
    away(redis)
    try:
        cancel(house, first)
        assert cancelled(polls[0])
        streams[0].until_ended()
    finally:
        back(redis)
    subscribed(redis)
    cancel(house, second)
    assert cancelled(polls[1])
    streams[1].until_ended()


def subscribed(redis: RedisServer) -> None:
    def heard() -> bool:
        with redis.client() as client:
            return bool(client.pubsub_numsub("foldline.news")[0][1])

    wait_until(heard)


def test_a_database_that_is_away_ends_no_wait_and_is_503_when_the_time_is_over(
    house: House, postgres: PostgresServer, gateway: Process, pool: ThreadPoolExecutor
) -> None:
    job = house.accepted()
    asked = poll(house, pool, job, seconds=10)
    waiting(house, 1)
    postgres.stop(mode="immediate")
    try:
        answer = asked.result()
        assert answer.seconds >= 10
        assert (answer.status, answer.body["code"]) == (503, "database_unavailable")
        assert answer.headers["retry-after"]
    finally:
        postgres.start()


def test_a_wait_outlives_a_restart_of_the_database(
    house: House, postgres: PostgresServer, gateway: Process, pool: ThreadPoolExecutor
) -> None:
    job = house.accepted()
    asked, stream = poll(house, pool, job), Stream(house, job)
    waiting(house, 2)
    postgres.restart(mode="immediate")
    wait_until(lambda: house.get(f"/v1/jobs/{job}").status == 200)
    cancel(house, job)
    assert cancelled(asked)
    stream.until_ended()


def waiting(house: House, number: int) -> None:
    """Until so many callers wait."""
    url = f"http://127.0.0.1:{house.port}/metrics"
    wait_until(lambda: f"\nfoldline_waits {number}.0\n" in httpx.get(url, timeout=60).text)


def test_sigterm_answers_everybody_who_waits_and_ends_in_order(
    house: House, gateway: Process, pool: ThreadPoolExecutor
) -> None:
    job = house.accepted()
    preferring: dict[str, Any] = {"inputs": {"seconds": 0, "echo": "prefers to wait"}}
    polls = [pool.submit(lambda: house.get(f"/v1/jobs/{job}?wait={POLL_S}")) for _ in range(3)]
    prefer = {"Prefer": f"wait={POLL_S}"}
    asked = pool.submit(lambda: house.post("/v1/models/sleepy/jobs", preferring, headers=prefer))
    streams = [Stream(house, job) for _ in range(3)]
    waiting(house, 7)
    gateway.signal(signal.SIGTERM)
    assert [each.result().status for each in polls] == [200] * 3
    assert {each.result().body["state"] for each in polls} == {"queued"}
    assert max(each.result().seconds for each in [*polls, asked]) < POLL_S
    assert asked.result().status == 202
    for stream in streams:
        stream.until_ended()
        assert stream.text.endswith(": come again\nretry: 2000\n\n")
    assert gateway.running.wait(60) == 0
    assert "Traceback" not in gateway.told()
    assert "timeout graceful shutdown" not in gateway.told()


def test_a_worker_tells_what_it_writes(house: House, redis: RedisServer, gateway: Process) -> None:
    worker = house.start_worker()
    told: list[bytes] = []
    with redis.client() as client, client.pubsub() as news:
        news.subscribe("foldline.news")
        job = house.accepted(seconds=1)
        stream = Stream(house, job)
        stream.until_ended()

        def began_and_ended() -> bool:
            if (message := news.get_message(timeout=0.1)) is not None:
                told.append(message["data"])
            return told.count(UUID(job).bytes) >= 2

        # A worker tells after it has written, and the stream may have read it in between.
        wait_until(began_and_ended)
    states = re.findall(r'"state":"(\w+)"', stream.text)
    assert states == ["queued", "running", "succeeded"]
    worker.signal(signal.SIGTERM)
    assert worker.running.wait(60) == 0
