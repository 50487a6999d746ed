"""Cancels and drains as they meet running jobs: real workers, real signals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
from celery import Celery
from django.db import connection
from pytest_django.fixtures import Settings

from foldline.catalog.models import Revision
from foldline.fleet.models import Worker
from foldline.jobs import services, tickets
from foldline.jobs.models import Attempt, Event, Job
from foldline.jobs.states import TERMINAL
from foldline.jobs.sweeper import Sweeper
from tests.worker_process import SHORT_LEASE, WorkerProcess, running_worker, until, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Submit = Callable[..., Job]


@contextmanager
def sweeping(settings: Settings) -> Iterator[None]:
    """A sweeper beside the test, with the times of a worker that is to be lost."""
    settings.LEASE_S = float(SHORT_LEASE["FOLDLINE_LEASE_S"])
    settings.HEARTBEAT_S, settings.SWEEP_S = 0.3, 0.5
    stop = threading.Event()

    def sweep() -> None:
        try:
            Sweeper().run(stop)
        finally:
            connection.close()

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def ends_of(job: Job) -> list[str]:
    return list(Event.objects.filter(job=job, kind__in=TERMINAL).values_list("kind", flat=True))


class TestCancel:
    def test_during_a_drain_ends_the_job_and_the_worker(
        self, submit_job: Submit, sleepy: WorkerProcess
    ) -> None:
        job = until(submit_job("sleepy", {"seconds": 120}), "running")
        sleepy.drain()
        wait_until(lambda: Worker.objects.get().state in ("busy", "draining"))
        services.cancel(tenant_id=job.tenant_id, job_id=job.id)
        until(job, "cancelled")
        assert sleepy.exit_code() == 0
        assert [attempt.outcome for attempt in job.attempts.all()] == ["cancelled"]

    def test_racing_with_the_finish_has_one_winner_that_stays(
        self, submit_job: Submit, sleepy: WorkerProcess
    ) -> None:
        """Cancels fall around the ends: a job whose end won is followed by a longer one."""
        ended: dict[str, int] = {}
        seconds = 0.35
        for _ in range(24):
            job = until(submit_job("sleepy", {"seconds": seconds}), "running", "succeeded")
            told = services.cancel(tenant_id=job.tenant_id, job_id=job.id)
            until(job, *TERMINAL)
            first = (job.state, job.result, job.finished_at)
            services.cancel(tenant_id=job.tenant_id, job_id=job.id)
            job.refresh_from_db()
            assert (job.state, job.result, job.finished_at) == first
            assert (job.result is not None) == (job.state == "succeeded")
            assert told in ("running", job.state)
            assert ends_of(job) == [job.state]
            ended[job.state] = ended.get(job.state, 0) + 1
            seconds *= 1.3 if job.state == "succeeded" else 0.7
        assert set(ended) == {"succeeded", "cancelled"}

    def test_leaves_no_grandchild_not_even_in_a_session_of_its_own(
        self, submit_job: Submit, hostile: WorkerProcess, settings: Settings
    ) -> None:
        job = submit_job("hostile", {"act": "leave_child_and_hang"})
        pids: list[int] = []

        def noted() -> bool:
            for file in Path(settings.HOME).glob(f"scratch/*/{job.id}/{job.id}/work/pids"):
                pids[:] = map(int, file.read_text().split())
            return len(pids) == 3

        wait_until(noted)
        sessions = {psutil.Process(pid).pid: _session_of(pid) for pid in pids}
        assert len(set(sessions.values())) > 1
        services.cancel(tenant_id=job.tenant_id, job_id=job.id)
        until(job, "cancelled")
        assert not any(map(psutil.pid_exists, pids))


def _session_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[3])


class TestDrain:
    def test_sigterm_then_sigkill_after_the_grace_loses_nothing(
        self,
        submit_job: Submit,
        revisions: dict[str, Revision],
        tmp_path: Path,
        settings: Settings,
    ) -> None:
        gate = tmp_path / "gate"
        with running_worker("sleepy", log=tmp_path / "first.log", **SHORT_LEASE) as first:
            running = until(submit_job("sleepy", {"seconds": 0, "until": str(gate)}), "running")
            waiting = [submit_job("sleepy", {"seconds": 0}) for _ in range(5)]
            first.drain()
            wait_until(lambda: "Warm shutdown" in first.told())
            first.kill()
        gate.touch()
        with sweeping(settings), running_worker("sleepy", log=tmp_path / "second.log"):
            for job in [running, *waiting]:
                until(job, "succeeded")
        outcomes = running.attempts.order_by("number").values_list("outcome", flat=True)
        assert list(outcomes) == ["worker_lost", "succeeded"]
        assert [job.attempt for job in waiting] == [1] * 5

    def test_cancel_consumer_then_sigterm_repeats_nothing(
        self, submit_job: Submit, revisions: dict[str, Revision], tmp_path: Path, settings: Settings
    ) -> None:
        queue, gate = tickets.queue_name("sleepy", number=1), tmp_path / "gate"
        with running_worker("sleepy", log=tmp_path / "first.log") as first:
            running = until(submit_job("sleepy", {"seconds": 0, "until": str(gate)}), "running")
            waiting = [submit_job("sleepy", {"seconds": 0}) for _ in range(5)]
            name = Worker.objects.get().name
            done = [{name: {"ok": f"no longer consuming from {queue}"}}]
            with Celery(broker=settings.REDIS_URL) as console:
                cancel_consumer = partial(
                    console.control.broadcast,
                    "cancel_consumer",
                    arguments={"queue": queue},
                    destination=[name],
                    reply=True,
                    timeout=5,
                )
                # It takes its first job a moment before it listens to what it is told.
                wait_until(lambda: cancel_consumer() == done)
            gate.touch()
            until(running, "succeeded")
            first.drain()
            assert first.exit_code() == 0
        assert {Job.objects.get(id=job.id).state for job in waiting} == {"queued"}
        with sweeping(settings), running_worker("sleepy", log=tmp_path / "second.log"):
            for job in waiting:
                until(job, "succeeded")
        assert Attempt.objects.count() == 6
        assert {attempt.outcome for attempt in Attempt.objects.all()} == {"succeeded"}
