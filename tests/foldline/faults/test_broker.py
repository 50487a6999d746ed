"""Redis is taken away, filled up or fed with garbage: jobs do not notice."""

from __future__ import annotations

import base64
import json
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import pytest

from foldline.jobs.tickets import _ticket
from tests.house import Answer, House, Process, built
from tests.redis_server import RedisServer
from tests.worker_process import wait_until

pytestmark = pytest.mark.processes

QUEUE = "foldline.sleepy.r1"
PROMISED_S = 0.5
FAULT_S = 2.0
OF_BATCH = 30


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(folder=tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> Iterator[House]:
    with built(tmp_path_factory.mktemp("house"), redis=redis) as house:
        house.start_gateway()
        house.start_sweeper()
        yield house


@pytest.fixture
def worker(house: House) -> Process:
    """The one worker of the house, which has to survive what is done to the others."""
    alive = [each for each in house.processes if "worker" in each.log.name and each.alive()]
    for surplus in alive[1:]:
        surplus.kill()
    return alive[0] if alive else house.start_worker()


@contextmanager
def killed_and_back_empty(redis: RedisServer) -> Iterator[None]:
    redis.kill()
    yield
    redis.durable = False
    redis.start()


@contextmanager
def killed_and_back_with_its_log(redis: RedisServer) -> Iterator[None]:
    with redis.client() as client:
        client.config_set("appendonly", "yes")
        client.config_set("appendfsync", "always")
        wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0)
    redis.kill()
    yield
    redis.durable = True
    redis.start()


@contextmanager
def frozen(redis: RedisServer) -> Iterator[None]:
    """Also what a partition looks like: no answer, and no refusal."""
    redis.freeze()
    yield
    redis.thaw()


@contextmanager
def connections_killed(redis: RedisServer) -> Iterator[None]:
    for _ in range(2):
        with redis.client() as client:
            for kind in ("normal", "pubsub"):
                client.client_kill_filter(_type=kind, skipme=True)
        time.sleep(0.5)
    yield


@contextmanager
def full(redis: RedisServer) -> Iterator[None]:
    with redis.client() as client:
        client.config_set("maxmemory", 1)
        yield
        client.config_set("maxmemory", 0)


@contextmanager
def refusing_acknowledgements(redis: RedisServer) -> Iterator[None]:
    """As Redis 7.0 does when it is full, and a replica always."""
    with redis.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-zrem", "-hdel")
        yield
        client.execute_command("ACL", "SETUSER", "default", "+zrem", "+hdel")


FAULTS = [
    killed_and_back_empty,
    killed_and_back_with_its_log,
    frozen,
    connections_killed,
    full,
    refusing_acknowledgements,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_submits_stay_fast_and_each_job_runs_once(
    house: House, worker: Process, redis: RedisServer, fault: Callable[[RedisServer], Any]
) -> None:
    before = house.attempts()
    running = house.held()
    usual = submitted(house)
    with fault(redis):
        house.let_go(running)
        during = submitted(house)
    assert usually_s(during) < PROMISED_S + usually_s(usual)
    jobs = [running, *(str(answer.body["id"]) for answer in usual + during)]
    for job in jobs:
        assert house.until(job, "succeeded") == ("succeeded", 1, "")
    assert house.attempts() - before == len(jobs)
    assert worker.alive()


def submitted(house: House) -> list[Answer]:
    """One submit after another, all of them accepted."""
    answers = []
    ends = time.monotonic() + FAULT_S
    while time.monotonic() < ends:
        answers.append(house.submit())
        assert answers[-1].status == 202
        time.sleep(0.1)
    return answers


def usually_s(answers: Sequence[Answer]) -> float:
    return median(answer.seconds for answer in answers)


@pytest.mark.usefixtures("worker")
def test_a_batch_is_accepted_while_redis_is_away_and_each_of_its_jobs_runs_once(
    house: House, redis: RedisServer
) -> None:
    before = house.attempts()
    usual = [batch_accepted(house) for _ in range(3)]
    with frozen(redis):
        during = [batch_accepted(house) for _ in range(3)]
    assert usually_s(during) < PROMISED_S + usually_s(usual)
    jobs = [each["job"]["id"] for answer in usual + during for each in answer.body["jobs"]]
    for job in jobs:
        assert house.until(job, "succeeded") == ("succeeded", 1, "")
    assert house.attempts() - before == len(jobs) == 6 * OF_BATCH


def batch_accepted(house: House) -> Answer:
    inputs = [{"seconds": 0, "echo": uuid4().hex} for _ in range(OF_BATCH)]
    answer = house.post("/v1/batches", {"jobs": [{"model": "sleepy", "inputs": i} for i in inputs]})
    assert answer.status == 202
    return answer


def test_a_worker_starts_while_redis_is_full_and_serves_when_there_is_room(
    house: House, redis: RedisServer, worker: Process
) -> None:
    worker.kill()
    with full(redis):
        second = house.start_worker()
        job = house.accepted()
        wait_until(lambda: "OutOfMemory" in second.told() or "maxmemory" in second.told())
        assert second.alive()
    assert house.until(job, "succeeded") == ("succeeded", 1, "")
    second.kill()


class Marks:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def changed(*, headers: dict[str, Any] | None = None, **fields: Any) -> bytes:
    message = json.loads(_ticket(QUEUE))
    message.update(fields)
    message["headers"] = {**message["headers"], **headers} if headers is not None else None
    return json.dumps(message).encode()


def body(text: bytes) -> str:
    return base64.b64encode(text).decode()


STRANGERS: dict[str, bytes] = {
    "text": b"garbage",
    "no_text": b"\xff\xfe\x00",
    "null": b"null",
    "empty_object": b"{}",
    "deep_json": b"[" * 100_000,
    "unknown_task": changed(headers={"task": "os.system"}),
    "task_that_is_a_list": changed(headers={"task": ["os.system"]}),
    "no_headers": changed(),
    "no_id": changed(headers={"id": None}),
    "no_delivery": changed(headers={}, properties={"delivery_tag": {}, "delivery_info": {}}),
    "body_that_is_no_base64": changed(headers={}, body="!!!"),
    "body_that_is_no_call": changed(headers={}, body=body(b"[7, 8, 9]")),
    "surplus_arguments": changed(headers={}, body=body(b'[[1, 2], {"x": 1}, {}]')),
    "huge_body": changed(headers={}, body="W" * 1_000_000),
    "for_tomorrow": changed(headers={"eta": "2099-01-01T00:00:00"}),
    "expires_never": changed(headers={"expires": {}}),
}


def dropped(worker: Process) -> int:
    return worker.told().count("not a ticket: dropped")


class TestStrangersInTheQueue:
    @pytest.mark.parametrize("stranger", STRANGERS)
    def test_what_is_no_ticket_is_dropped_with_a_word_and_the_next_job_runs(
        self, house: House, worker: Process, redis: RedisServer, stranger: str
    ) -> None:
        before = dropped(worker)
        with redis.client() as client:
            client.lpush(QUEUE, STRANGERS[stranger])
        for _ in range(2):  # a worker that held on to the stranger would read no more
            assert house.until(house.accepted(), "succeeded") == ("succeeded", 1, "")
        wait_until(lambda: dropped(worker) > before)
        assert dropped(worker) == before + 1
        assert worker.alive()

    @pytest.mark.parametrize("wrapped", [True, False])
    def test_a_pickle_is_never_opened(
        self,
        house: House,
        worker: Process,
        redis: RedisServer,
        tmp_path: Path,
        wrapped: bool,  # noqa: FBT001 - a parameter
    ) -> None:
        before = dropped(worker)
        marker = tmp_path / "marker"
        evil = pickle.dumps(Marks(marker))
        kind = {"content-type": "application/x-python-serialize", "content-encoding": "binary"}
        with redis.client() as client:
            client.lpush(QUEUE, changed(headers={}, body=body(evil), **kind) if wrapped else evil)
        job = house.accepted()
        assert house.until(job, "succeeded") == ("succeeded", 1, "")
        wait_until(lambda: dropped(worker) > before)
        assert not marker.exists()
        assert worker.alive()

    def test_a_ticket_of_an_unknown_version_is_told_and_costs_nothing(
        self, house: House, worker: Process, redis: RedisServer
    ) -> None:
        with redis.client() as client:
            client.lpush(QUEUE, changed(headers={}, body=body(b"[[99], {}, {}]")))
        job = house.accepted()
        assert house.until(job, "succeeded") == ("succeeded", 1, "")
        wait_until(lambda: "ticket version 99 is not known here" in worker.told())

    def test_a_queue_that_is_no_list_costs_only_its_tickets(
        self, house: House, worker: Process, redis: RedisServer
    ) -> None:
        lost = "Connection to broker lost"
        before = worker.told().count(lost)
        with redis.client() as client:
            client.delete(QUEUE)
            client.set(QUEUE, "nonsense")
            job = house.accepted()
            wait_until(lambda: worker.told().count(lost) > before)
            client.delete(QUEUE)
        assert house.until(job, "succeeded") == ("succeeded", 1, "")
        assert worker.alive()

    def test_a_ticket_for_a_retired_revision_serves_who_waits_and_then_nobody(
        self, house: House, worker: Process, redis: RedisServer
    ) -> None:
        worker.kill()
        job = house.accepted()
        self._mark_revision(house, "retired")
        wait_until(lambda: house.submit().status == 410)
        try:
            late = house.start("late-worker", "-m", "tasks.worker", "sleepy@r1")
            assert house.until(job, "succeeded") == ("succeeded", 1, "")
            before = late.told().count("no job waiting")
            with redis.client() as client:
                client.lpush(QUEUE, _ticket(QUEUE))
            wait_until(lambda: late.told().count("no job waiting") > before)
            assert late.alive()
        finally:
            self._mark_revision(house, "live")
            wait_until(lambda: house.submit().status == 202)

    def _mark_revision(self, house: House, state: str) -> None:
        house.manage(
            "shell",
            "--verbosity=0",
            "--command",
            "from foldline.catalog.models import Revision;"
            f"Revision.objects.filter(model__name='sleepy').update(state='{state}')",
        )
