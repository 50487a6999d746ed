"""Workers and sweepers that are two, late, frozen or fooled about the time."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.house import House, Process, built
from tests.postgres_server import running_postgres
from tests.redis_server import running_redis
from tests.worker_process import SHORT_LEASE, wait_until

pytestmark = pytest.mark.processes

MIB = 1024 * 1024
MINUTE, HOUR = 60, 3600
LEASE_S = float(SHORT_LEASE["FOLDLINE_LEASE_S"])


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("faults")
    with (
        running_postgres() as postgres,
        running_redis(folder) as redis,
        built(folder / "house", redis=redis, postgres=postgres) as house,
    ):
        house.start_gateway()
        yield house


@pytest.fixture(autouse=True)
def _processes_end(house: House) -> Iterator[None]:
    before = len(house.processes)
    yield
    for process in house.processes[before:]:
        process.kill()
    del house.processes[before:]
    # What a worker leaves running is nobody's to go on with.
    for (job,) in house.query("select id from jobs_job where state in ('queued', 'running')"):
        house.post(f"/v1/jobs/{job}/cancel", {})


def events(house: House, job: str, kind: str, code: str = "") -> int:
    having = f"and data->>'code' = '{code}'" if code else ""
    return house.count(f"jobs_event where job_id = '{job}' and kind = '{kind}' {having}")


def seconds(house: House, job: str, span: str) -> float:
    """How long a span between two times of a job's row is."""
    rows = house.query(f"select extract(epoch from {span}) from jobs_job where id = '{job}'")  # noqa: S608 - of the test
    return float(rows[0][0])


def family(process: Process) -> list[psutil.Process]:
    """The keeper, the plugin and whatever they started."""
    return psutil.Process(process.running.pid).children(recursive=True)


class TestTwoSweepers:
    def test_a_lost_job_is_put_back_once(self, house: House) -> None:
        for _ in range(2):
            house.start_sweeper(**SHORT_LEASE)
        lost = house.start_worker(**SHORT_LEASE)
        job = house.held()
        lost.kill()
        second = house.start_worker()
        house.let_go(job)
        assert house.until(job, "succeeded") == ("succeeded", 2, "")
        assert events(house, job, "queued", "worker_lost") == 1
        assert second.alive()

    def test_the_other_leads_when_the_leader_is_killed(self, house: House) -> None:
        sweepers = {str(s.running.pid): s for s in (house.start_sweeper(), house.start_sweeper())}

        def leader() -> str:
            rows = house.query("select holder from jobs_leadership where duty = 'sweep'")
            return str(rows[0][0]).rpartition(":")[2] if rows else ""

        wait_until(lambda: leader() in sweepers)
        first = leader()
        sweepers[first].kill()
        wait_until(lambda: leader() != first)
        assert leader() in sweepers


def faketime() -> str:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("no libfaketime here to set a clock wrong with (Debian: faketime)")
    return str(found[0])


class TestClocks:
    """Leases are the database's time; nobody's own clock matters."""

    @pytest.mark.parametrize("off", [HOUR, -HOUR])
    def test_a_worker_and_a_sweeper_an_hour_off_lose_and_take_nothing(
        self, house: House, off: int
    ) -> None:
        wrong = {
            "LD_PRELOAD": faketime(),
            "FAKETIME": f"{off:+d}s",
            "DONT_FAKE_MONOTONIC": "1",
        }
        house.start_sweeper(**wrong, **SHORT_LEASE)
        worker = house.start_worker(**wrong, FOLDLINE_LEASE_S=str(MINUTE))
        job = house.held()
        assert 0 < seconds(house, job, "lease_until - now()") <= MINUTE
        time.sleep(2 * LEASE_S)  # a sweeper that went by its own clock would have judged
        house.let_go(job)
        assert house.until(job, "succeeded") == ("succeeded", 1, "")
        assert 2 * LEASE_S <= seconds(house, job, "finished_at - created_at") < HOUR / 2
        assert worker.alive()

    def test_the_clock_is_really_wrong_in_these_tests(self, house: House) -> None:
        told = house.manage(
            "shell",
            "--verbosity=0",
            "--command",
            "import time; from foldline.clock import database_now;"
            "print(round(time.time() - database_now().timestamp()))",
            LD_PRELOAD=faketime(),
            FAKETIME=f"+{HOUR}s",
            DONT_FAKE_MONOTONIC="1",
        )
        assert abs(int(told.split()[-1]) - HOUR) < MINUTE


class TestFrozenHost:
    def test_beyond_its_lease_it_finds_itself_fenced_and_ends_its_plugin(
        self, house: House
    ) -> None:
        house.start_sweeper(**SHORT_LEASE)
        frozen = house.start_worker(**SHORT_LEASE)
        job = house.held()
        plugin = family(frozen)
        frozen.signal(signal.SIGSTOP)
        other = house.start_worker()
        wait_until(lambda: house.job(job)[:2] == ("running", 2))
        frozen.signal(signal.SIGCONT)
        wait_until(lambda: f"job {job} attempt 1 lost (fenced)" in frozen.told())
        assert not any(process.is_running() for process in plugin)
        house.let_go(job)
        assert house.until(job, "succeeded") == ("succeeded", 2, "")
        wait_until(lambda: f"job {job} attempt 2 succeeded" in other.told())
        assert f"job {job} attempt 1 succeeded" not in frozen.told()
        # And it is of use again.
        other.kill()
        assert house.until(house.accepted(), "succeeded") == ("succeeded", 1, "")


class TestHostilePlugins:
    def test_one_that_prints_200_megabytes_costs_neither_disk_nor_memory(
        self, house: House
    ) -> None:
        worker = house.start_worker("hostile")
        before = psutil.Process(worker.running.pid).memory_info().rss
        for _ in range(4):
            job = house.accepted("hostile", act="print_much")
            assert house.until(job, "succeeded") == ("succeeded", 1, "")
        assert worker.log.stat().st_size < 20 * MIB  # a burst, and then so many lines a second
        assert psutil.Process(worker.running.pid).memory_info().rss - before < 64 * MIB

    def test_one_that_forks_and_ignores_sigterm_is_gone_when_the_worker_says_so(
        self, house: House
    ) -> None:
        worker = house.start_worker("hostile")
        for act in ("leave_child", "leave_child_in_own_session"):
            house.until(house.accepted("hostile", act=act), "succeeded")
        job = house.accepted("hostile", act="hang_ignoring_sigterm")
        house.until(job, "running")
        wait_until(lambda: len(family(worker)) >= 5)
        everything = family(worker)
        house.post(f"/v1/jobs/{job}/cancel", {})
        house.until(job, "cancelled")
        assert not any(process.is_running() for process in everything)
        assert house.until(house.accepted("hostile", act="behave"), "succeeded")[1] == 1

    def test_a_worker_that_is_killed_leaves_nothing_of_its_plugin(self, house: House) -> None:
        worker = house.start_worker("hostile")
        job = house.accepted("hostile", act="leave_child_and_hang")
        house.until(job, "running")
        wait_until(lambda: len(family(worker)) >= 4)
        everything = family(worker)
        worker.kill()
        wait_until(lambda: not any(process.is_running() for process in everything))
