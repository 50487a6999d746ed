"""A model that keeps crashing or does not load: real workers, real deaths."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.jobs import pauses
from foldline.jobs.breaker import FAILED_STARTS, Cause, read
from foldline.jobs.models import Attempt, Job, QueueState
from foldline.jobs.selectors import blocked_reasons
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
KILLS = {"steps": 9, "die_at": 1, "deaths": 9}


@pytest.fixture
def refusal(settings: Settings) -> Path:
    """While this file is there, the stepper does not load."""
    return Path(settings.HOME, "stepper-does-not-load")


def cause_of(revision: Revision) -> Cause:
    queue = QueueState.objects.filter(model_id=revision.model_id).first()
    return read(queue.breaker if queue else None).cause


def why(job: Job) -> str | None:
    job.refresh_from_db()
    return blocked_reasons([job]).get(job.id)


def kill_plugin(worker: WorkerProcess) -> None:
    for process in processes_of(worker):
        if "model_plugins.runner" in process.cmdline()[2:3]:
            os.kill(process.pid, signal.SIGKILL)


def test_three_payloads_that_crash_it_pause_a_model_until_a_trial_succeeds(
    submit_job: Submit, stepper: WorkerProcess, revisions: dict[str, Revision]
) -> None:
    for _ in range(3):
        submit_job("stepper", KILLS)
    wait_until(lambda: cause_of(revisions["stepper"]) is Cause.CRASHES)
    good = submit_job("stepper", {"steps": 1})
    wait_until(lambda: Worker.objects.get().state == "ready")
    before = Attempt.objects.count()
    assert why(good) == "crash_looping"
    pauses.resume(revisions["stepper"].model_id)
    until(good, "succeeded")
    assert Attempt.objects.count() >= before + 1
    # Closed, until the other three crash it again.
    wait_until(lambda: "model answers again" in stepper.told())


def test_nothing_is_claimed_while_the_plugin_loads_again(
    submit_job: Submit, stepper: WorkerProcess, settings: Settings
) -> None:
    until(submit_job("stepper", {"steps": 1}), "succeeded")
    slow = settings.HOME / "stepper-loads-for-ever"
    slow.touch()
    kill_plugin(stepper)
    wait_until(lambda: "plugin_crashed" in stepper.told())
    waiting = submit_job("stepper", {"steps": 1})
    wait_until(lambda: why(waiting) == "model_loading")
    assert waiting.attempt == 0
    slow.unlink()
    until(waiting, "succeeded")
    wait_until(lambda: Worker.objects.get().state == "ready")


def test_a_worker_whose_plugin_does_not_come_up_again_leaves_and_says_why(
    submit_job: Submit, stepper: WorkerProcess, refusal: Path
) -> None:
    until(submit_job("stepper", {"steps": 1}), "succeeded")
    refusal.touch()
    kill_plugin(stepper)
    wait_until(lambda: "plugin_crashed" in stepper.told())
    waiting = submit_job("stepper", {"steps": 1})
    assert stepper.exit_code() == 75
    row = Worker.objects.get()
    assert row.state == "gone"
    assert row.failure is not None
    assert row.failure["code"] == "load_failed"
    waiting.refresh_from_db()
    assert (waiting.state, waiting.attempt) == ("queued", 0)


def test_a_model_that_does_not_start_is_tried_by_one_worker_at_a_time(
    submit_job: Submit, revisions: dict[str, Revision], refusal: Path, tmp_path: Path
) -> None:
    refusal.touch()
    for number in range(FAILED_STARTS):
        with running_worker("stepper", log=tmp_path / f"{number}.log") as worker:
            assert worker.exit_code() == 75
    pauses.watch_starts(now=database_now())
    assert cause_of(revisions["stepper"]) is Cause.STARTS
    refusal.unlink()
    job = submit_job("stepper", {"steps": 1})
    with (
        running_worker("stepper", log=tmp_path / "one.log") as one,
        running_worker("stepper", log=tmp_path / "other.log") as other,
    ):
        alive = Worker.objects.exclude(state="gone")
        wait_until(lambda: all("waiting for a trial" in each.told() for each in (one, other)))
        assert why(job) == "crash_looping"
        assert [worker.state for worker in alive] == ["starting", "starting"]
        pauses.resume(revisions["stepper"].model_id)
        until(job, "succeeded")
        wait_until(lambda: alive.filter(state="starting").count() == 1)
        pauses.watch_starts(now=database_now())
        wait_until(lambda: not alive.filter(state="starting").exists())
        for each in (one, other):
            each.drain()
            assert each.exit_code() == 0


def test_a_worker_that_waits_for_its_trial_leaves_when_told(
    revisions: dict[str, Revision], tmp_path: Path
) -> None:
    for number in range(FAILED_STARTS):
        Worker.objects.create(
            name=str(number),
            revision=revisions["stepper"],
            node="here",
            pid=1,
            state="gone",
            started_at=database_now(),
            last_seen=database_now(),
            failure={"code": "load_failed", "message": "no"},
        )
    pauses.watch_starts(now=database_now())
    with running_worker("stepper", log=tmp_path / "log") as worker:
        wait_until(lambda: Worker.objects.filter(state="starting").exists())
        worker.drain()
        assert worker.exit_code() == 0


def test_a_poisonous_job_alone_pauses_nothing(
    submit_job: Submit, stepper: WorkerProcess, revisions: dict[str, Revision]
) -> None:
    job = until(submit_job("stepper", KILLS), "failed")
    assert error_code(job) == "poison"
    assert cause_of(revisions["stepper"]) is Cause.NONE
    until(submit_job("stepper", {"steps": 1}), "succeeded")
