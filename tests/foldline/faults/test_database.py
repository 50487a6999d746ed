"""The database is taken away: callers hear it at once, and workers lose nothing."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.house import HEARTBEAT_S, Answer, House, Process, built
from tests.postgres_server import Mode, PostgresServer
from tests.redis_server import RedisServer
from tests.worker_process import SHORT_LEASE, wait_until

pytestmark = pytest.mark.processes

QUEUE = "foldline.sleepy.r1"
OUTAGE_S = float(SHORT_LEASE["FOLDLINE_LEASE_S"]) + 2 * HEARTBEAT_S + 0.5
THREADS = 8
PROMISED_S = 2.0
NOISE_S = 2.0  # of a busy machine; whoever is no gateway waits for ten seconds and more


@pytest.fixture(autouse=True)
def _everything_back(postgres: PostgresServer) -> Iterator[None]:
    yield
    if not (postgres.folder / "data" / "postmaster.pid").exists():
        postgres.start()


def usual_s(house: House, *, at_once: int = THREADS) -> float:
    """How long the slowest of so many submits takes while the database is there."""
    return max(answer.seconds for answer in house.together([house.submit] * at_once))


def assert_is_soon_told(answer: Answer, *, usual_s: float) -> None:
    assert answer.status == 503, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.body["code"] == "database_unavailable"
    assert answer.body["retryable"] is True
    assert int(answer.headers["retry-after"]) > 0
    assert answer.seconds < PROMISED_S + NOISE_S + usual_s


def warm(house: House) -> None:
    """Give every thread of the gateway its connection."""
    answers = house.together([lambda: house.get("/v1/jobs")] * (4 * THREADS))
    assert {answer.status for answer in answers} == {200}


class TestCallers:
    def test_a_database_that_is_down_is_a_503_within_two_seconds_and_never_a_500(
        self, house: House, postgres: PostgresServer
    ) -> None:
        job, usual = house.accepted(), usual_s(house)
        postgres.stop()
        assert_is_soon_told(house.submit(), usual_s=usual)
        assert_is_soon_told(house.get(f"/v1/jobs/{job}"), usual_s=usual)
        assert house.get("/admin/login/").status in (200, 503)
        assert house.get("/admin/").status != 500
        ready = house.get("/readyz")
        assert ready.status == 503
        assert ready.body["reasons"] == ["database: OperationalError"]
        assert house.get("/healthz").status == 200
        postgres.start()
        wait_until(lambda: house.submit().status == 202)

    @pytest.mark.parametrize("mode", ["fast", "immediate"])
    def test_no_request_fails_after_a_restart_on_any_thread(
        self, house: House, postgres: PostgresServer, mode: Mode
    ) -> None:
        warm(house)
        postgres.restart(mode=mode)
        answers = house.together([lambda: house.get("/v1/jobs")] * (4 * THREADS))
        assert {answer.status for answer in answers} == {200}
        assert house.submit().status == 202

    def test_no_request_fails_after_an_admin_ended_all_sessions(
        self, house: House, postgres: PostgresServer
    ) -> None:
        warm(house)
        assert postgres.end_sessions() >= 1
        asks: list[Callable[[], Answer]] = [house.submit, lambda: house.get("/v1/jobs")]
        statuses = {answer.status for answer in house.together(asks * THREADS)}
        assert statuses == {200, 202}

    def test_a_locked_table_is_a_503_for_everyone_and_nobody_waits_for_the_others(
        self, house: House, postgres: PostgresServer
    ) -> None:
        job, usual = house.accepted(), usual_s(house, at_once=10 * THREADS)
        with postgres.connect(autocommit=False) as other:
            other.execute("lock table jobs_job")
            few = house.together([house.submit, lambda: house.get(f"/v1/jobs/{job}")])
            many = house.together([house.submit] * (10 * THREADS))
            for answer in few + many:
                assert_is_soon_told(answer, usual_s=usual)
            other.rollback()
        wait_until(lambda: house.submit().status == 202)

    def test_a_server_that_takes_no_new_connections_is_a_503(
        self, house: House, postgres: PostgresServer
    ) -> None:
        usual = usual_s(house)
        postgres.end_sessions()
        postgres.freeze()
        try:
            assert_is_soon_told(house.submit(), usual_s=usual)
        finally:
            postgres.thaw()
        wait_until(lambda: house.submit().status == 202)

    def test_a_submit_that_was_told_503_makes_one_job_when_it_is_repeated(
        self, house: House, postgres: PostgresServer
    ) -> None:
        usual = usual_s(house)
        with postgres.connect(autocommit=False) as other:
            other.execute("lock table jobs_job")
            assert_is_soon_told(house.submit(key="again"), usual_s=usual)
            other.rollback()
        _repeat_until_accepted(house, "again")
        assert house.count("jobs_job where idempotency_key = 'again'") == 1

    def test_a_submit_whose_answer_was_lost_with_the_connection_makes_one_job(
        self, house: House, postgres: PostgresServer
    ) -> None:
        """Sessions are ended in the middle of submits: each made one job or none."""
        keys = [f"cut-{number}" for number in range(40)]
        asks: list[Callable[[], Answer]] = [partial(house.submit, key=key) for key in keys]
        cut = [partial(_cut, postgres)] * 5
        answers = house.together([*asks[:20], *cut, *asks[20:]])
        assert {answer.status for answer in answers} <= {0, 202, 503}
        for key in keys:
            _repeat_until_accepted(house, key)
            assert house.count(f"jobs_job where idempotency_key = '{key}'") == 1

    def test_a_batch_whose_answer_was_lost_with_the_connection_makes_its_jobs_once(
        self, house: House, postgres: PostgresServer
    ) -> None:
        """Each batch was made with all its jobs, or not at all."""
        keys = [f"cut-batch-{number}" for number in range(40)]
        asks: list[Callable[[], Answer]] = [partial(_send_batch, house, key) for key in keys]
        cut = [partial(_cut, postgres)] * 5
        answers = house.together([*asks[:20], *cut, *asks[20:]])
        assert {answer.status for answer in answers} <= {0, 202, 503}
        for key, first in zip(keys, [*answers[:20], *answers[25:]], strict=True):
            assert house.count(f"jobs_job where session = '{key}'") in (0, OF_BATCH)
            again = _batch_accepted(house, key)
            assert again.headers["idempotency-replayed"] == "true"
            assert first.status != 202 or first.body["id"] == again.body["id"]
            assert house.count(f"jobs_job where session = '{key}'") == OF_BATCH
            assert house.count(f"jobs_batch where idempotency_key = '{key}'") == 1


OF_BATCH = 10


def _send_batch(house: House, key: str) -> Answer:
    inputs = [{"seconds": 0, "echo": f"{key} {number}"} for number in range(OF_BATCH)]
    body = {"session": key, "jobs": [{"model": "sleepy", "inputs": each} for each in inputs]}
    return house.post("/v1/batches", body, headers={"Idempotency-Key": key})


def _batch_accepted(house: House, key: str) -> Answer:
    wait_until(lambda: _send_batch(house, key).status == 202)
    return _send_batch(house, key)


def _repeat_until_accepted(house: House, key: str) -> None:
    wait_until(lambda: house.submit(key=key).status == 202)


def _cut(postgres: PostgresServer) -> Answer:
    postgres.end_sessions()
    return Answer(status=0, headers={}, body={}, seconds=0)


class TestAReplica:
    def test_a_server_that_only_reads_is_a_503(
        self, house: House, postgres: PostgresServer
    ) -> None:
        usual = usual_s(house)
        with postgres.connect() as admin:
            admin.execute("alter database postgres set default_transaction_read_only = on")
            postgres.end_sessions()
            try:
                assert_is_soon_told(house.submit(), usual_s=usual)
            finally:
                admin.execute("alter database postgres set default_transaction_read_only = off")
                postgres.end_sessions()
        wait_until(lambda: house.submit().status == 202)


@pytest.mark.usefixtures("processes")
class TestWorkers:
    def test_an_outage_longer_than_the_lease_wastes_no_attempt(
        self, house: House, postgres: PostgresServer
    ) -> None:
        """One job ends during the outage, and one runs through it."""
        # The sweeper looks sooner than the workers beat: what it judges by is an old lease.
        slow, eager = {"FOLDLINE_HEARTBEAT_S": "0.9"}, {"FOLDLINE_SWEEP_S": "0.05"}
        sweeper = house.start_sweeper(**eager, **slow, **SHORT_LEASE)
        workers = [house.start_worker(**slow, **SHORT_LEASE) for _ in range(2)]
        short, long = house.held(), house.held()
        postgres.stop(mode="immediate")
        house.let_go(short)
        ended = "result not recorded yet"
        wait_until(lambda: any(ended in worker.told() for worker in workers))
        time.sleep(OUTAGE_S + 1)
        postgres.start()
        assert house.until(short, "succeeded") == ("succeeded", 1, "")
        lease = f"jobs_job where id = '{long}' and lease_until > now()"
        wait_until(lambda: house.count(lease))
        house.let_go(long)
        assert house.until(long, "succeeded") == ("succeeded", 1, "")
        assert all(process.alive() for process in (sweeper, *workers))

    @pytest.mark.parametrize("mode", ["fast", "immediate"])
    def test_a_restart_under_a_running_job_costs_nothing(
        self, house: House, postgres: PostgresServer, mode: Mode
    ) -> None:
        house.start_sweeper()
        house.start_worker()
        job = house.held()
        postgres.restart(mode=mode)
        house.let_go(job)
        assert house.until(job, "succeeded") == ("succeeded", 1, "")

    def test_a_worker_waits_for_a_locked_table_as_long_as_it_takes(
        self, house: House, postgres: PostgresServer
    ) -> None:
        worker = house.start_worker()
        job = house.held()
        with postgres.connect(autocommit=False) as other:
            other.execute("lock table jobs_job")
            house.let_go(job)
            time.sleep(4)
            other.rollback()
        assert house.until(job, "succeeded") == ("succeeded", 1, "")
        assert "result not recorded yet" not in worker.told()

    def test_a_worker_holds_its_ticket_while_the_database_is_away(
        self, house: House, postgres: PostgresServer, redis: RedisServer
    ) -> None:
        worker = house.start_worker()
        job = house.accepted(seconds=0)
        house.until(job, "succeeded")
        postgres.stop()
        with redis.client() as client:
            ticket = _a_ticket()
            client.lpush(QUEUE, *[ticket] * 5)
            wait_until(lambda: worker.told().count("claim failed") >= 3)
            assert client.llen(QUEUE) >= 4  # one may have been there before
            postgres.start()
            waiting = house.accepted(seconds=0)
            assert house.until(waiting, "succeeded") == ("succeeded", 1, "")
            wait_until(lambda: client.llen(QUEUE) == 0)

    def test_a_worker_frozen_in_a_transaction_does_not_hold_the_line_up_for_ever(
        self, house: House, postgres: PostgresServer
    ) -> None:
        """Every session of ours ends in the database when it idles in a transaction."""
        bound = house.manage(
            "shell",
            "--verbosity=0",
            "--command",
            "from django.db import connection as c; k = c.cursor();"
            "k.execute('show idle_in_transaction_session_timeout'); print(k.fetchone()[0])",
        )
        assert bound.split()[-1] == "20s"


def _a_ticket() -> bytes:
    from foldline.jobs.tickets import _ticket

    return _ticket(QUEUE)


def another_writer(house: House) -> sqlite3.Connection:
    return sqlite3.connect(house.folder / "db.sqlite3", isolation_level=None, timeout=60)


class TestSQLite:
    @pytest.fixture
    def small(self, tmp_path: Path, redis: RedisServer) -> Iterator[House]:
        with built(tmp_path / "house", redis=redis) as house:
            house.start_gateway()
            yield house

    def test_another_writer_is_a_503_within_two_seconds_and_reading_goes_on(
        self, small: House
    ) -> None:
        job, usual = small.accepted(), usual_s(small)
        with closing(another_writer(small)) as other:
            other.execute("begin immediate")
            assert_is_soon_told(small.submit(), usual_s=usual)
            assert small.get(f"/v1/jobs/{job}").status == 200
            other.execute("rollback")
        assert small.submit().status == 202

    @pytest.mark.usefixtures("small")
    def test_a_worker_waits_for_another_writer(self, small: House) -> None:
        worker: Process = small.start_worker()
        job = small.held()
        with closing(another_writer(small)) as other:
            other.execute("begin immediate")
            small.let_go(job)
            time.sleep(4)
            other.execute("rollback")
        assert small.until(job, "succeeded") == ("succeeded", 1, "")
        assert "result not recorded yet" not in worker.told()
