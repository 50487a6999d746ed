"""What an attempt saved reaches the next one: real workers, real kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from foldline.artifacts.services import store_upload
from foldline.catalog.models import Revision
from foldline.catalog.services import publish, sync
from foldline.jobs import services
from foldline.jobs.models import Attempt, Job
from foldline.jobs.sweeper import Sweeper
from foldline.tenants.models import Tenant
from model_plugins.registry import BUILTIN_ROOT, discover
from tests.worker_process import (
    SHORT_LEASE,
    WorkerProcess,
    processes_of,
    running_worker,
    until,
    wait_until,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Submit = Callable[..., Job]


@pytest.fixture
def kept(settings: Settings) -> Callable[[Job], Path]:
    """The file a job's checkpoint is kept in."""
    return lambda job: settings.HOME / "checkpoints" / str(job.id) / "latest"


def computed(job: Job) -> list[int]:
    assert job.result is not None
    steps: list[int] = job.result["computed"]
    return steps


def warnings_of(job: Job) -> list[str]:
    return [f"{w['code']} {w['message'].split(':')[0]}" for w in job.warnings]


def test_a_killed_plugin_goes_on_where_it_was_and_leaves_nothing_behind(
    submit_job: Submit, stepper: WorkerProcess, kept: Callable[[Job], Path]
) -> None:
    job = until(submit_job("stepper", {"steps": 5, "die_at": 3}), "succeeded")
    assert computed(job) == [4, 5]
    assert job.result is not None
    assert job.result["total"] == 15
    assert job.warnings == []
    wait_until(lambda: not kept(job).parent.exists())


def test_another_worker_goes_on_after_one_that_was_killed(
    submit_job: Submit,
    revisions: dict[str, Revision],
    tmp_path: Path,
    kept: Callable[[Job], Path],
    settings: Settings,
) -> None:
    settings.LEASE_S = float(SHORT_LEASE["FOLDLINE_LEASE_S"])
    settings.HEARTBEAT_S, settings.SWEEP_S = 0.3, 0.5
    sweeper, gate = Sweeper(), tmp_path / "gate"
    job = submit_job("stepper", {"steps": 5, "until": str(gate)})
    with running_worker("stepper", log=tmp_path / "first.log", **SHORT_LEASE) as first:
        wait_until(lambda: Attempt.objects.filter(job=job, checkpoint_step=4).exists())
        first.kill()
    gate.touch()
    with running_worker("stepper", log=tmp_path / "second.log"):
        wait_until(lambda: sweeper.sweep().lost)
        until(job, "succeeded")
        wait_until(lambda: not kept(job).parent.exists())
    assert job.result is not None
    assert job.result["total"] == 15
    assert computed(job) == [5]
    assert [a.outcome for a in job.attempts.order_by("number")] == ["worker_lost", "succeeded"]


@pytest.mark.parametrize("reason", ["truncated", "foreign", "stale"])
def test_one_that_cannot_be_used_is_ignored_and_named(
    submit_job: Submit,
    revisions: dict[str, Revision],
    tmp_path: Path,
    kept: Callable[[Job], Path],
    reason: str,
) -> None:
    gate = tmp_path / "gate"
    job = submit_job("stepper", {"steps": 4, "die_at": 2, "until": str(gate)})
    with running_worker("stepper", log=tmp_path / "first.log") as first:
        wait_until(lambda: Attempt.objects.filter(job=job, outcome="plugin_crashed").exists())
        first.kill()
    gate.touch()
    # The worker may have begun again after the death of its plugin.
    Job.objects.filter(id=job.id).update(state="queued", lease_until=None)
    spoil(kept(job), job, reason)
    with running_worker("stepper", log=tmp_path / "second.log"):
        services.owe_ticket(job.id)
        until(job, "succeeded")
    assert computed(job) == [1, 2, 3, 4]
    assert warnings_of(job) == [f"checkpoint_ignored {reason}"]


def spoil(file: Path, job: Job, reason: str) -> None:
    data = file.read_bytes()
    if reason == "truncated":
        file.write_bytes(data[:-1])
    elif reason == "foreign":
        file.write_bytes(data.replace(job.fingerprint.encode(), b"e" * 64))
    else:
        last = job.attempts.latest("number")
        Attempt.objects.filter(id=last.id).update(checkpoint_step=99)


def test_the_smaller_way_does_not_go_on_from_the_larger_one(
    submit_job: Submit, stepper: WorkerProcess, kept: Callable[[Job], Path]
) -> None:
    """A job that runs out of memory after it has saved: the steps are of another kind."""
    job = submit_job("stepper", {"steps": 3, "batch": 8, "fits": 4, "memory_at": 2})
    until(job, "succeeded")
    assert computed(job) == [1, 2, 3]
    assert warnings_of(job)[0] == "checkpoint_ignored foreign"


def test_a_cancelled_job_leaves_no_checkpoint(
    submit_job: Submit, stepper: WorkerProcess, kept: Callable[[Job], Path]
) -> None:
    job = submit_job("stepper", {"steps": 1000, "seconds": 0.1})
    wait_until(lambda: kept(job).exists())
    services.cancel(tenant_id=job.tenant_id, job_id=job.id)
    until(job, "cancelled")
    wait_until(lambda: not kept(job).parent.exists())


def test_a_plugin_is_given_its_own_copy_only(
    submit_job: Submit, stepper: WorkerProcess, settings: Settings
) -> None:
    job = submit_job("stepper", {"steps": 1000, "seconds": 0.1})
    wait_until(lambda: (settings.HOME / "checkpoints" / str(job.id)).exists())
    for process in processes_of(stepper):
        shown = f"{process.cwd()} {process.cmdline()} {process.environ()}"
        assert "home/checkpoints" not in shown


def test_what_is_left_of_a_job_that_ended_elsewhere_is_swept(
    submit_job: Submit, stepper: WorkerProcess, kept: Callable[[Job], Path]
) -> None:
    job = submit_job("stepper", {"steps": 1000, "seconds": 0.1})
    wait_until(lambda: kept(job).exists())
    stepper.kill()
    Job.objects.filter(id=job.id).update(state="queued", lease_until=None)
    services.cancel(tenant_id=job.tenant_id, job_id=job.id)
    Sweeper().sweep()
    assert not kept(job).parent.exists()


@pytest.fixture
def proteinmpnn(
    submit_job: Submit, revisions: dict[str, Revision], builtin_python: Path, settings: Settings
) -> Callable[..., Job]:
    """Submit a design of 64 sequences for 60 residues; the same each time."""
    (settings.HOME / "runtimes" / "builtin").symlink_to(builtin_python.parent.parent)
    sync(discover([BUILTIN_ROOT]))
    revision = Revision.objects.select_related("model").get(model__name="proteinmpnn")
    publish(revision, by=None)
    revisions["proteinmpnn"] = revision
    structure = (BUILTIN_ROOT / "proteinmpnn" / "examples" / "structure.pdb").read_text()
    part = [
        line for line in structure.splitlines() if line[21:22] == "L" and int(line[22:26]) <= 60
    ]
    stored = store_upload(
        tenant_id=Tenant.objects.get().id, chunks=["\n".join(part).encode()], name="part.pdb"
    )
    inputs = {"structure": str(stored.id), "chains_to_design": ["L"], "num_sequences": 64}
    return lambda: submit_job("proteinmpnn", inputs, artifacts=[("/structure", stored.id)])


@pytest.mark.weights
@pytest.mark.timeout(600)
def test_real_designs_go_on_after_a_kill_and_equal_those_of_an_uninterrupted_run(
    proteinmpnn: Callable[..., Job], tmp_path: Path, kept: Callable[[Job], Path], settings: Settings
) -> None:
    with running_worker("proteinmpnn", log=tmp_path / "log") as worker:
        job = proteinmpnn()
        wait_until(lambda: kept(job).exists())
        (plugin,) = [p for p in processes_of(worker) if "model_plugins.runner" in p.cmdline()[2:3]]
        os.kill(plugin.pid, signal.SIGKILL)
        resumed = f"scratch/*/{job.id}/{job.id}/checkpoints/resume"
        wait_until(lambda: list(settings.HOME.glob(resumed)))
        until(job, "succeeded")
        uninterrupted = until(proteinmpnn(), "succeeded")
    assert [a.outcome for a in job.attempts.order_by("number")] == ["plugin_crashed", "succeeded"]
    assert job.result is not None
    assert len(job.result["sequences"]) == 64
    assert job.result == uninterrupted.result
    assert job.warnings == uninterrupted.warnings
    assert uninterrupted.attempt == 1
