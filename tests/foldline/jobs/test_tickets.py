from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from foldline.jobs import wire
from foldline.jobs.tickets import TASK, BrokerUnavailable, Publisher, queue_name, transport_options
from tests.redis_server import RedisServer, running_redis

QUEUE = queue_name("sleepy", number=1)
WITHIN_S = 30.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture
def publisher(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """As patient as a slow machine asks for."""
    monkeypatch.setattr(wire, "SOCKET_TIMEOUT_S", WITHIN_S)
    return Publisher(server.url)


@pytest.fixture
def celery(server: RedisServer) -> Iterator[Celery]:
    app = Celery("test", broker=server.url, set_as_current=False)
    app.conf.broker_transport_options = transport_options(
        QUEUE, run_timeout_s=60, load_timeout_s=10
    )
    yield app
    app.close()


def test_celery_takes_a_ticket_as_one_of_its_own(publisher: Publisher, celery: Celery) -> None:
    publisher.publish(QUEUE)
    with celery.connection_for_read() as connection, connection.SimpleQueue(QUEUE) as line:
        message = line.get(timeout=WITHIN_S)
        message.ack()
    arguments, keywords, _ = message.decode()
    assert (message.headers["task"], arguments, keywords) == (TASK, [1], {})
    assert message.headers["id"] == message.properties["correlation_id"]


def test_a_ticket_has_what_apply_async_would_have_sent(
    publisher: Publisher, celery: Celery
) -> None:
    publisher.publish(QUEUE)
    celery.send_task(TASK, args=(1,), queue=QUEUE, ignore_result=True)
    with celery.connection_for_read() as connection, connection.SimpleQueue(QUEUE) as line:
        ours, theirs = line.get(timeout=WITHIN_S), line.get(timeout=WITHIN_S)
        ours.ack()
        theirs.ack()
    assert ours.decode() == theirs.decode()
    assert (ours.content_type, ours.content_encoding) == (
        theirs.content_type,
        theirs.content_encoding,
    )
    for header in ("task", "eta", "expires", "retries", "timelimit", "group", "ignore_result"):
        assert ours.headers[header] == theirs.headers[header], header


def test_no_two_tickets_share_an_id(publisher: Publisher, server: RedisServer) -> None:
    publisher.publish(QUEUE, count=50)
    with server.client() as client:
        assert len(set(client.lrange(QUEUE, 0, -1))) == 50


def test_tickets_of_many_queues_go_in_one_message(
    publisher: Publisher, server: RedisServer
) -> None:
    counts = {queue_name("sleepy", number=number): number for number in (1, 2, 3)}
    publisher.publish_all({QUEUE: 1})  # it is connected now
    publisher.withdraw(QUEUE, count=1)
    with server.client() as client:
        before = client.info("stats")["total_reads_processed"]
        publisher.publish_all(counts)
        reads = client.info("stats")["total_reads_processed"] - before
    assert {queue: publisher.ready(queue) for queue in counts} == counts
    assert reads == 2  # the publisher's, and the question itself


def test_ready_tickets_are_counted_and_can_be_taken_back(publisher: Publisher) -> None:
    assert publisher.ready(QUEUE) == 0
    publisher.publish(QUEUE, count=5)
    publisher.withdraw(QUEUE, count=3)
    assert publisher.ready(QUEUE) == 2


def test_an_unreadable_queue_is_an_error_and_never_zero(
    publisher: Publisher, server: RedisServer
) -> None:
    server.kill()
    with pytest.raises(BrokerUnavailable):
        publisher.ready(QUEUE)


def test_two_failures_open_the_breaker_so_that_nobody_waits(server: RedisServer) -> None:
    publisher = Publisher(server.url)
    server.freeze()
    for _ in range(2):
        with pytest.raises(BrokerUnavailable, match="Timeout"):
            publisher.publish(QUEUE)
    with pytest.raises(BrokerUnavailable, match="resting"):
        publisher.publish(QUEUE)
    server.thaw()


def test_queues_share_no_bookkeeping(celery: Celery) -> None:
    other = transport_options("foldline.other.r1", run_timeout_s=60, load_timeout_s=10)
    mine = celery.conf.broker_transport_options
    for key in ("unacked_key", "unacked_index_key", "unacked_mutex_key"):
        assert mine[key] != other[key]


@pytest.mark.parametrize(("run", "load"), [(60, 10), (1800, 120), (7200, 600)])
def test_a_running_job_is_never_redelivered(run: int, load: int) -> None:
    options = transport_options(QUEUE, run_timeout_s=run, load_timeout_s=load)
    assert options["visibility_timeout"] > run + load
    assert options["visibility_timeout"] >= 3600
