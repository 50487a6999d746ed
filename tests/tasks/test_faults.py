"""Workers and sweepers that are two, late, frozen or fooled about the time."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.house import LEASE_S, SWEEP_S, House, Process, built
from tests.postgres_server import running_postgres
from tests.redis_server import running_redis
from tests.worker_process import wait_until

pytestmark = pytest.mark.processes

MIB = 1024 * 1024
HOUR = 3600


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
        if process.alive():
            process.signal(signal.SIGCONT)
        process.kill()
    del house.processes[before:]


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
            house.start_sweeper()
        lost = house.start_worker()
        job = house.accepted(seconds=2)
        house.until(job, "running")
        lost.kill()
        second = house.start_worker()
        assert house.until(job, "succeeded", within_s=LEASE_S + 20) == ("succeeded", 2, "")
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
        wait_until(lambda: leader() != first, within_s=3 * SWEEP_S + 5)
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
        house.start_sweeper(**wrong)
        worker = house.start_worker(**wrong)
        job = house.accepted(seconds=3 * LEASE_S)
        house.until(job, "running")
        assert -0.5 < seconds(house, job, "lease_until - now()") <= LEASE_S
        assert house.until(job, "succeeded") == ("succeeded", 1, "")
        took = seconds(house, job, "finished_at - created_at")
        assert 3 * LEASE_S <= took < 3 * LEASE_S + 20
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
        assert abs(int(told.split()[-1]) - HOUR) < 10


class TestFrozenHost:
    def test_beyond_its_lease_it_finds_itself_fenced_and_ends_its_plugin(
        self, house: House
    ) -> None:
        house.start_sweeper()
        frozen = house.start_worker()
        job = house.accepted(seconds=LEASE_S + 3)
        house.until(job, "running")
        plugin = family(frozen)
        frozen.signal(signal.SIGSTOP)
        other = house.start_worker()
        house.until(job, "queued", within_s=LEASE_S + 10)
        house.until(job, "running")
        frozen.signal(signal.SIGCONT)
        wait_until(lambda: "lost (fenced)" in frozen.told())
        assert not any(process.is_running() for process in plugin)
        assert house.until(job, "succeeded") == ("succeeded", 2, "")
        assert f"job {job} attempt 2 succeeded" in other.told()
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
            assert house.until(job, "succeeded", within_s=60) == ("succeeded", 1, "")
        assert worker.log.stat().st_size < 2 * MIB
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
        began = time.monotonic()
        worker.kill()
        wait_until(lambda: not any(process.is_running() for process in everything), within_s=5)
        assert time.monotonic() - began < 5
