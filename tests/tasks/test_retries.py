"""What a failed attempt leads to, on a real worker with a plugin that fails as it is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.jobs.models import Attempt, Job
from foldline.jobs.sweeper import expire_due
from tests.worker_process import WorkerProcess, error_code, running_worker, until, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Submit = Callable[..., Job]


def outcomes(job: Job) -> list[str]:
    return [attempt.outcome for attempt in job.attempts.order_by("number")]


def warned(job: Job) -> list[str]:
    return [warning["code"] for warning in job.warnings]


def test_a_job_that_ran_out_of_memory_is_run_once_more_in_a_smaller_way(
    submit_job: Submit, stepper: WorkerProcess
) -> None:
    job = until(submit_job("stepper", {"steps": 2, "batch": 8, "fits": 4}), "succeeded")
    assert outcomes(job) == ["gpu_oom", "succeeded"]
    assert job.result is not None
    assert (job.result["batch"], job.result["total"]) == (4, 3)
    assert warned(job) == ["degraded"]


def test_a_worker_that_serves_once_stays_for_a_job_that_was_put_back_in_line(
    submit_job: Submit, tmp_path: Path
) -> None:
    """Its job has no other worker to wait for: in the lane `bulk` each has one of its own."""
    job = submit_job("stepper", {"steps": 2, "batch": 8, "fits": 4})
    worker = WorkerProcess(model="stepper", log=tmp_path / "once.log", arguments=("--once",))
    worker.start()
    assert worker.exit_code() == 0, worker.told()
    job.refresh_from_db()
    assert (job.state, outcomes(job)) == ("succeeded", ["gpu_oom", "succeeded"])


def test_what_does_not_fit_in_the_smaller_way_either_is_a_dead_letter(
    submit_job: Submit, stepper: WorkerProcess
) -> None:
    job = until(submit_job("stepper", {"steps": 2, "batch": 8, "fits": 2}), "failed")
    assert outcomes(job) == ["gpu_oom", "gpu_oom"]
    assert (error_code(job), job.dead_letter) == ("gpu_oom", True)
    assert job.error is not None
    assert job.error["detail"] == "A batch of 4 does not fit."


def test_a_model_without_a_smaller_way_answers_the_same_and_runs_nothing(
    submit_job: Submit, hostile: WorkerProcess, settings: Settings
) -> None:
    ran = settings.HOME / "ran"
    job = submit_job("hostile", {"act": "run_out_of_memory", "paths": [str(ran)]})
    until(job, "failed")
    assert outcomes(job) == ["host_oom", "host_oom"]
    assert (error_code(job), job.dead_letter) == ("host_oom", True)
    assert ran.read_text() == "once\n"


def test_a_dependency_that_is_away_is_waited_for_in_the_database(
    submit_job: Submit, stepper: WorkerProcess
) -> None:
    job = submit_job("stepper", {"steps": 1, "available_from": 2})
    failed = Attempt.objects.filter(job=job, outcome="dependency_unavailable")
    wait_until(failed.exists)
    job.refresh_from_db()
    assert job.state == "queued"
    assert job.not_before is not None
    ended_at = failed.get().ended_at
    assert ended_at is not None
    assert timedelta(seconds=5) < job.not_before - ended_at <= timedelta(seconds=10)


def test_a_job_whose_deadline_passes_while_it_waits_for_a_retry_ends(
    submit_job: Submit, stepper: WorkerProcess
) -> None:
    job = submit_job("stepper", {"steps": 1, "available_from": 9}, deadline_s=300.0)
    wait_until(lambda: Attempt.objects.filter(job=job, outcome="dependency_unavailable").exists())
    assert not expire_due(now=database_now())
    assert expire_due(now=database_now() + timedelta(seconds=300))
    job.refresh_from_db()
    assert (job.state, error_code(job)) == ("expired", "deadline_exceeded")


def test_a_companion_of_a_job_that_kills_the_plugin_is_answered(
    submit_job: Submit, revisions: dict[str, Revision], tmp_path: Path
) -> None:
    """Both die in one call. From then on each runs alone, so only the guilty one is poison."""
    Revision.objects.filter(model__name="stepper").update(max_batch_size=2)
    guilty = submit_job("stepper", {"steps": 9, "die_at": 1, "deaths": 9})
    innocent = submit_job("stepper", {"steps": 2})
    with running_worker("stepper", log=tmp_path / "log"):
        until(guilty, "failed")
        until(innocent, "succeeded")
    assert error_code(guilty) == "poison"
    assert outcomes(innocent) == ["plugin_crashed", "succeeded"]


def test_the_deadline_of_one_job_does_not_end_its_companion(
    submit_job: Submit, revisions: dict[str, Revision], tmp_path: Path
) -> None:
    Revision.objects.filter(model__name="stepper").update(max_batch_size=2)
    gate, never = tmp_path / "gate", tmp_path / "never"
    first = submit_job("stepper", {"steps": 1, "until": str(gate)})
    with running_worker("stepper", log=tmp_path / "log"):
        until(first, "running")
        late = submit_job("stepper", {"steps": 1, "until": str(never)}, deadline_s=8.0)
        other = submit_job("stepper", {"steps": 1})
        gate.touch()
        until(late, "failed")
        until(other, "succeeded")
    assert error_code(late) == "deadline_exceeded"
