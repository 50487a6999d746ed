"""The worker for real: its own process, real Redis, the suite's database, a real plugin."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import psutil
import pytest
from pytest_django.fixtures import Settings

from foldline.artifacts.models import Artifact
from foldline.artifacts.storage import path_of
from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.jobs import services, tickets
from foldline.jobs.models import Attempt, Job
from foldline.jobs.sweeper import settle_tickets
from foldline.tenants.models import LedgerLine
from tests.redis_server import RedisServer
from tests.worker_process import (
    WorkerProcess,
    error_code,
    processes_of,
    running_worker,
    until,
    wait_until,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Submit = Callable[..., Job]


class TestServing:
    def test_a_job_runs_and_its_result_is_in_the_database(
        self, submit_job: Submit, sleepy: WorkerProcess
    ) -> None:
        job = until(submit_job("sleepy", {"seconds": 0, "echo": "hello"}), "succeeded")
        assert job.result == {"echo": "hello", "seed": 7}
        attempt = Attempt.objects.get(job=job)
        assert attempt.outcome == "succeeded"
        assert attempt.peak_memory_bytes > 0

    def test_one_that_serves_once_leaves_the_second_job_to_others(
        self, submit_job: Submit, tmp_path: Path
    ) -> None:
        jobs = [submit_job("sleepy", {"seconds": 0, "echo": name}) for name in ("first", "second")]
        worker = WorkerProcess(model="sleepy", log=tmp_path / "once.log", arguments=("--once",))
        worker.start()
        assert worker.exit_code() == 0, worker.told()
        assert [Job.objects.get(id=job.id).state for job in jobs] == ["succeeded", "queued"]

    def test_an_output_file_becomes_an_artifact_whose_hash_is_true(
        self, submit_job: Submit, sleepy: WorkerProcess
    ) -> None:
        job = until(submit_job("sleepy", {"seconds": 0, "echo": "x", "file": True}), "succeeded")
        assert job.result is not None
        artifact = Artifact.objects.get(id=job.result["file"]["artifact"])
        assert path_of(job.tenant_id, artifact.sha256).read_bytes() == b"x"
        assert job.result["file"]["sha256"] == artifact.sha256
        assert [link.role for link in job.jobartifact_set.all()] == ["output"]

    def test_progress_reaches_the_database_while_the_job_runs(
        self, submit_job: Submit, sleepy: WorkerProcess
    ) -> None:
        job = submit_job("sleepy", {"seconds": 30, "progress": True})

        def shown() -> bool:
            job.refresh_from_db()
            return bool(job.progress and job.progress["fraction"] > 0)

        wait_until(shown)
        assert job.progress is not None
        assert job.progress["stage"] == "sleep"

    def test_a_batchable_model_answers_companions_in_one_call(
        self, submit_job: Submit, revisions: dict[str, Revision], tmp_path: Path
    ) -> None:
        Revision.objects.filter(model__name="sleepy").update(max_batch_size=4)
        made = [submit_job("sleepy", {"seconds": 0.5, "echo": str(n)}) for n in range(4)]
        with running_worker("sleepy", log=tmp_path / "log"):
            for number, job in enumerate(made):
                until(job, "succeeded")
                assert job.result is not None
                assert job.result["echo"] == str(number)
        assert len({attempt.started_at for attempt in Attempt.objects.all()}) == 1

    def test_a_second_worker_shares_the_line_and_nothing_runs_twice(
        self, submit_job: Submit, sleepy: WorkerProcess, tmp_path: Path
    ) -> None:
        made = [submit_job("sleepy", {"seconds": 0.05}) for _ in range(30)]
        with running_worker("sleepy", log=tmp_path / "second.log"):
            for job in made:
                until(job, "succeeded")
        assert Attempt.objects.count() == len(made)

    def test_surplus_and_unknown_tickets_are_harmless(
        self, submit_job: Submit, sleepy: WorkerProcess, server: RedisServer
    ) -> None:
        queue = tickets.queue_name("sleepy", number=1)
        tickets.publisher().publish(queue, count=20)
        odd = json.loads(tickets._ticket(queue))
        odd["body"] = "W1s5OV0sIHt9LCB7fV0="  # [[99], {}, {}]
        with server.client() as client:
            client.lpush(queue, json.dumps(odd))
            job = until(submit_job("sleepy", {"seconds": 0}), "succeeded")
            wait_until(lambda: client.llen(queue) == 0)
        assert Attempt.objects.filter(job=job).count() == 1
        wait_until(lambda: "version 99" in sleepy.told())

    def test_the_worker_row_tells_loading_ready_and_gone(
        self, submit_job: Submit, sleepy: WorkerProcess
    ) -> None:
        until(submit_job("sleepy", {"seconds": 0}), "succeeded")
        wait_until(lambda: Worker.objects.get().state == "ready")
        row = Worker.objects.get()
        assert row.pid == sleepy.process.pid
        assert row.load_seconds["total"] > 0
        assert row.load_seconds["start_worker"] > 0, "its own process, up to the load"
        assert {"start_process", "check_weights", "import", "load"} <= set(row.load_seconds)
        sleepy.drain()
        assert sleepy.exit_code() == 0
        row = Worker.objects.get()
        assert row.state == "gone"
        lines = LedgerLine.objects.filter(worker=row.name)
        assert {line.kind for line in lines} >= {"cold_start", "idle"}
        alive = (row.last_seen - row.started_at).total_seconds()
        assert sum(line.gpu_seconds for line in lines) == pytest.approx(alive * row.share)


class TestDeaths:
    """Every way to die has a name, costs one attempt, and the worker goes on."""

    @pytest.mark.parametrize(
        ("act", "code"),
        [
            ("segfault", "plugin_crashed"),
            ("exit_3", "plugin_exited"),
            ("exit_0", "plugin_no_answer"),
            ("announce_too_much", "protocol_broken"),
        ],
    )
    def test_a_death_is_named_and_after_three_the_job_is_poison(
        self, submit_job: Submit, hostile: WorkerProcess, act: str, code: str
    ) -> None:
        job = until(submit_job("hostile", {"act": act}), "failed")
        assert error_code(job) == "poison"
        assert job.error is not None
        assert job.error["details"]["cause"]["code"] == code
        assert [a.outcome for a in job.attempts.order_by("number")] == [code] * 3
        until(submit_job("hostile", {"act": "behave"}), "succeeded")
        assert hostile.process.poll() is None

    @pytest.mark.parametrize(
        ("act", "code"),
        [
            ("return_nan", "model_output_invalid"),
            ("return_too_much", "output_too_large"),
            ("return_list", "model_output_invalid"),
        ],
    )
    def test_an_answer_that_is_none_fails_the_job_once(
        self, submit_job: Submit, hostile: WorkerProcess, act: str, code: str
    ) -> None:
        job = until(submit_job("hostile", {"act": act}), "failed")
        assert (error_code(job), job.attempt, job.dead_letter) == (code, 1, True)

    def test_a_hang_ends_at_the_deadline_and_leaves_no_process(
        self, submit_job: Submit, hostile: WorkerProcess
    ) -> None:
        until(submit_job("hostile", {"act": "behave"}), "succeeded")
        before = {process.pid for process in processes_of(hostile)}
        job = until(
            submit_job("hostile", {"act": "leave_child_and_hang"}, deadline_s=6.0), "failed"
        )
        assert error_code(job) == "deadline_exceeded"
        wait_until(lambda: not any(map(psutil.pid_exists, before)))
        until(submit_job("hostile", {"act": "behave"}), "succeeded")

    def test_a_worker_that_is_killed_takes_its_plugin_along(
        self, submit_job: Submit, sleepy: WorkerProcess
    ) -> None:
        until(submit_job("sleepy", {"seconds": 60}), "running")
        plugin = processes_of(sleepy)
        assert len(plugin) >= 2
        sleepy.kill()
        wait_until(lambda: not any(process.is_running() for process in plugin))


class TestCancel:
    def test_a_running_job_stops_and_its_process_is_gone_or_idle(
        self, submit_job: Submit, sleepy: WorkerProcess
    ) -> None:
        job = until(submit_job("sleepy", {"seconds": 60}), "running")
        services.cancel(tenant_id=job.tenant_id, job_id=job.id)
        until(job, "cancelled")
        assert Attempt.objects.get(job=job).outcome == "cancelled"
        until(submit_job("sleepy", {"seconds": 0}), "succeeded")

    def test_a_plugin_that_does_not_listen_is_killed(
        self, submit_job: Submit, hostile: WorkerProcess
    ) -> None:
        job = until(submit_job("hostile", {"act": "hang_ignoring_sigterm"}), "running")
        plugin = processes_of(hostile)
        services.cancel(tenant_id=job.tenant_id, job_id=job.id)
        until(job, "cancelled")
        assert not any(process.is_running() for process in plugin)


class TestDrain:
    def test_a_running_job_is_finished_and_waiting_ones_stay(
        self, submit_job: Submit, sleepy: WorkerProcess, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        running = until(submit_job("sleepy", {"seconds": 0, "until": str(gate)}), "running")
        waiting = submit_job("sleepy", {"seconds": 0})
        sleepy.drain()
        wait_until(lambda: "Warm shutdown" in sleepy.told())
        gate.touch()
        assert sleepy.exit_code() == 0
        running.refresh_from_db()
        waiting.refresh_from_db()
        assert (running.state, waiting.state) == ("succeeded", "queued")
        assert Attempt.objects.count() == 1

    def test_a_worker_that_is_loading_leaves_at_once(
        self, revisions: dict[str, Revision], tmp_path: Path
    ) -> None:
        with running_worker("sleepy", log=tmp_path / "log") as worker:
            wait_until(lambda: Worker.objects.filter(state__in=["starting", "loading"]).exists())
            worker.drain()
            assert worker.exit_code() == 0

    def test_a_frozen_redis_does_not_keep_a_worker_from_leaving(
        self, submit_job: Submit, sleepy: WorkerProcess, server: RedisServer, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        job = until(submit_job("sleepy", {"seconds": 0, "until": str(gate)}), "running")
        server.freeze()
        try:
            sleepy.drain()
            gate.touch()
            until(job, "succeeded")
            assert sleepy.exit_code() == 0
        finally:
            server.thaw()


class TestFaultsAround:
    def test_a_redis_that_comes_back_empty_costs_nothing(
        self, submit_job: Submit, sleepy: WorkerProcess, server: RedisServer, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        running = until(submit_job("sleepy", {"seconds": 0, "until": str(gate)}), "running")
        waiting = submit_job("sleepy", {"seconds": 0})
        server.kill()
        server.start()
        gate.touch()
        until(running, "succeeded")

        def served() -> bool:
            settle_tickets(now=database_now())
            waiting.refresh_from_db()
            return waiting.state == "succeeded"

        wait_until(served)
        assert Attempt.objects.count() == 2

    def test_a_frozen_worker_finds_itself_fenced_and_writes_nothing(
        self, submit_job: Submit, revisions: dict[str, Revision], tmp_path: Path
    ) -> None:
        job = submit_job("sleepy", {"seconds": 3600, "echo": "mine"})
        with running_worker("sleepy", log=tmp_path / "log", FOLDLINE_HEARTBEAT_S="2") as sleepy:
            until(job, "running")
            wait_for_a_beat()  # in the middle of one it would be frozen with the database locked
            sleepy.process.send_signal(signal.SIGSTOP)
            Job.objects.filter(id=job.id).update(state="queued", lease_until=None)
            (taken,) = services.claim(revision_id=revisions["sleepy"].id, owner="another")
            sleepy.process.send_signal(signal.SIGCONT)
            wait_until(lambda: "lost (fenced)" in sleepy.told())
        services.finish(taken.fence, result={"echo": "another's"})
        job.refresh_from_db()
        assert (job.result, job.attempt) == ({"echo": "another's"}, 2)


def wait_for_a_beat() -> None:
    before = Worker.objects.get().last_seen
    wait_until(lambda: Worker.objects.get().last_seen != before)


class TestNothingToServe:
    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("nobody", "has no live revision"),
            ("sleepy@r9", "has no live revision"),
            ("../x", "say which model"),
        ],
    )
    def test_a_wrong_name_is_a_sentence(
        self, revisions: dict[str, Revision], tmp_path: Path, name: str, sentence: str
    ) -> None:
        with running_worker(name, log=tmp_path / "log") as worker:
            assert worker.exit_code() == 78
        assert sentence in worker.told()

    def test_a_share_that_is_none_is_a_sentence(
        self, revisions: dict[str, Revision], tmp_path: Path
    ) -> None:
        with running_worker("sleepy", log=tmp_path / "log", FOLDLINE_SHARE="half") as worker:
            assert worker.exit_code() == 78
        assert "worker: 'half' is no share." in worker.told()

    def test_a_folder_that_changed_since_its_review_is_refused(
        self, revisions: dict[str, Revision], tmp_path: Path
    ) -> None:
        Revision.objects.update(digest="0" * 64)
        with running_worker("sleepy", log=tmp_path / "log") as worker:
            assert worker.exit_code() == 78
        assert "has changed since r1 was reviewed" in worker.told()

    def test_a_missing_interpreter_is_named_in_the_workers_row(
        self, revisions: dict[str, Revision], tmp_path: Path, settings: Settings
    ) -> None:
        os.remove(settings.HOME / "runtimes" / "plain" / "bin" / "python")
        with running_worker("sleepy", log=tmp_path / "log") as worker:
            assert worker.exit_code() == 75
        failure = Worker.objects.get().failure
        assert failure is not None
        assert failure["code"] == "interpreter_missing"


def test_uuid_of_the_current_job_is_shown_while_it_runs(
    submit_job: Submit, sleepy: WorkerProcess
) -> None:
    job = until(submit_job("sleepy", {"seconds": 30}), "running")

    def current() -> UUID | None:
        return Worker.objects.get().current_job

    wait_until(lambda: current() == job.id)
    assert Worker.objects.get().state == "busy"
