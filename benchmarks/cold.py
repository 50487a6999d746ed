"""From no worker to the first inference and back, and what is lost on the way.

`cold_overhead_s`: from a submit on a model without workers until its result is there, less what
this worker's process needs from its start until it is ready, measured alone in the same run. The
job does nothing. Then workers are taken from running jobs by an order to go to zero, and a job
announces a call of another model. All that happened is held against the promises P1 to P10.
`python -m benchmarks.cold`
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.both_databases import on_both
from benchmarks.chaos.history import History
from benchmarks.figures import figure
from benchmarks.patience import PATIENCE_S, wait_until

ALONE, LAPS = 5, 4
TARGET_S = 2.0
LONG_JOBS, LONG_S = 6, 4.0
PLACES = 2
NEXT_LAPS, BEFORE_S = 3, 6.0


def main() -> None:
    on_both("cold", measure)


def measure() -> list[dict[str, Any]]:
    """The figures on the database that DATABASE_URL names."""
    from benchmarks import stage

    with ExitStack() as running:
        running.enter_context(stage.redis_server())
        key = stage.prepare()
        _watch(stage.HOME / "histories")
        alone = [_spawn_to_ready() for _ in range(ALONE)]
        running.enter_context(stage.gateway())
        stage.set_live("dice")
        _leave_soon()
        for command in (
            ("-m", "benchmarks.chaos.witness", "django", "sweeper"),
            ("manage.py", "forecaster"),
            ("-m", "benchmarks.chaos.watched_scaler"),
        ):
            running.enter_context(
                stage.process(
                    sys.executable,
                    *command,
                    ready=lambda: True,
                    FOLDLINE_SCALER_TARGET="local",
                    FOLDLINE_LOCAL_WORKERS=str(PLACES),
                )
            )
        wait_until(_has_decided)
        cold = [_cold_job(key) for _ in range(LAPS)]
        _order_to_zero_under_way(key)
        # In turns: nothing is left of one lap in the next.
        after = [(_call_after(key, announced=False), _call_after(key)) for _ in range(NEXT_LAPS)]
        on: dict[str, Any] = {"database": stage.database()}
        return [*_figures(alone, cold, on), *_next_figures(after, on), _promises(on)]


def _figures(alone: list[float], cold: list[float], on: dict[str, Any]) -> list[dict[str, Any]]:
    from foldline.jobs.models import Attempt, Job
    from foldline.tenants.models import LedgerLine

    ready_s = statistics.median(alone)
    overhead = [took - ready_s for took in cold]
    jobs = Job.objects.count()
    lost = jobs - Job.objects.filter(state="succeeded").count()
    wasted = sum(line.gpu_seconds for line in LedgerLine.objects.filter(kind="wasted"))
    again = Attempt.objects.count() - jobs
    laps: dict[str, Any] = {"laps": LAPS, **on}
    return [
        figure("cold_overhead_s", statistics.median(overhead), unit="s", at_most=TARGET_S, **laps),
        figure("cold_overhead_worst_s", max(overhead), unit="s", at_most=TARGET_S, **laps),
        figure("spawn_to_ready_s", ready_s, unit="s", laps=ALONE, **on),
        figure("cold_lost", lost, unit="jobs", exactly=0, jobs=jobs, **on),
        figure("cold_run_again", again, unit="attempts", exactly=0, jobs=jobs, **on),
        figure("scale_in_wasted_gpu_s", wasted, unit="GPU-s", exactly=0, **on),
    ]


def _next_figures(after: list[tuple[float, float]], on: dict[str, Any]) -> list[dict[str, Any]]:
    plain, warm = (statistics.median(each) for each in zip(*after, strict=True))
    laps: dict[str, Any] = {"laps": NEXT_LAPS, **on}
    return [
        figure("next_saved_s", plain - warm, unit="s", cold_s=round(plain, 3), **laps),
        figure("next_announced_s", warm, unit="s", **laps),
    ]


def _promises(on: dict[str, Any]) -> dict[str, Any]:
    from benchmarks import stage
    from benchmarks.chaos.checker import violations
    from benchmarks.chaos.tables import gathered

    told = gathered(histories=stage.HOME / "histories", artifacts=stage.HOME / "artifacts")
    found = violations(told)
    for each in found:
        print(f"{each.promise}: {each.what}: {each.about}", file=sys.stderr)
    seen: dict[str, Any] = {"events": len(told.history), "jobs": len(told.jobs)}
    return figure("cold_violations", len(found), unit="violations", exactly=0, **seen, **on)


_told: list[History] = []


def _watch(folder: Path) -> None:
    """Let this caller and every process that knows how write down what they do."""
    folder.mkdir()
    os.environ["FOLDLINE_CHAOS_HISTORY"] = str(folder)
    _told.append(History(folder, "caller"))


def _spawn_to_ready() -> float:
    """Seconds from the start of a worker's process until it says that it is loaded."""
    began = time.perf_counter()
    # As the scaler starts it here.
    command = [sys.executable, "-m", "benchmarks.chaos.witness", "tasks.worker", "sleepy"]
    worker = subprocess.Popen(command, stdout=sys.stderr)
    wait_until(lambda: _present("ready"))
    took = time.perf_counter() - began
    worker.terminate()
    worker.wait(PATIENCE_S)
    return took


def _leave_soon() -> None:
    """An idle worker is worth what its start costs, and no caller's time."""
    from foldline.catalog.models import Model
    from foldline.fleet.policies import wish

    for name in ("sleepy", "dice"):
        wish(Model.objects.get(name=name).pk, omega=0.0)


def _has_decided() -> bool:
    from foldline.fleet.models import ScalingDecision

    return ScalingDecision.objects.exists()


def _cold_job(key: str) -> float:
    """Seconds from the submit until the result, of a job that found no worker."""
    from foldline.jobs.models import Job

    wait_until(lambda: not _present())
    job = _submit(key, seconds=0.0)
    wait_until(lambda: Job.objects.get(id=job).state == "succeeded")
    done = Job.objects.get(id=job)
    assert done.finished_at is not None
    return (done.finished_at - done.created_at).total_seconds()


def _order_to_zero_under_way(key: str) -> None:
    """All places at work, the rest waiting; then no worker is wanted; then they are again."""
    from foldline.catalog.models import Model
    from foldline.fleet.policies import pin
    from foldline.jobs.models import Job

    model = Model.objects.get(name="sleepy").pk
    pin(model, workers=PLACES)
    wait_until(lambda: _present("ready", "busy") == PLACES)
    for _ in range(LONG_JOBS):
        _submit(key, seconds=LONG_S)
    wait_until(lambda: Job.objects.filter(state="running").count() == PLACES)
    pin(model, workers=0)
    wait_until(lambda: not _present())
    pin(model, workers=None)
    wait_until(lambda: not Job.objects.filter(state__in=("queued", "running")).exists())
    wait_until(lambda: not _present())


def _call_after(key: str, *, announced: bool = True) -> float:
    """Seconds from the submit to the result of a call of `dice`, made when a job of `sleepy` has
    ended that announced it, or not."""
    from foldline.jobs.models import Job

    wait_until(lambda: not _present())
    first = _submit(key, seconds=BEFORE_S)
    if announced:
        Job.objects.filter(id=first).update(next_models=["dice"])
    wait_until(lambda: Job.objects.get(id=first).state == "succeeded")
    second = _submit(key, model="dice", dice=1)
    wait_until(lambda: Job.objects.get(id=second).state == "succeeded")
    done = Job.objects.get(id=second)
    assert done.finished_at is not None
    _forget_warmth()
    return (done.finished_at - done.created_at).total_seconds()


def _forget_warmth() -> None:
    """An idle worker would stay until it is no longer worth keeping; the next lap needs none."""
    from foldline.catalog.models import Model
    from foldline.fleet.policies import pin

    models = list(Model.objects.filter(name__in=("sleepy", "dice")))
    for model in models:
        pin(model.pk, workers=0)
    wait_until(lambda: not _present())
    for model in models:
        pin(model.pk, workers=None)


_seeds = itertools.count()


def _submit(key: str, *, model: str = "sleepy", **inputs: Any) -> str:
    from benchmarks import stage

    # Between two jobs the gateway would close a connection that is kept.
    agent = stage.Agent(key)
    # Another seed is another call; equal ones would be answered from the first one's result.
    seed = next(_seeds)
    if model == "sleepy":
        inputs["echo"] = str(seed)
    token = f"call-{seed}"
    body = {"inputs": inputs, "seed": seed, "session": token}
    [history] = _told
    history.write("submit", token=token, key="")
    job = str(agent.post(f"/v1/models/{model}/jobs", json.dumps(body).encode())["id"])
    history.write("submitted", token=token, key="", status=202, altered=False, job=job)
    return job


def _present(*states: str) -> int:
    from foldline.fleet.models import Worker

    workers = Worker.objects.exclude(state="gone")
    return (workers.filter(state__in=states) if states else workers).count()


if __name__ == "__main__":
    main()
