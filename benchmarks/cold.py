"""From no worker to the first inference and back, and what is lost on the way.

`cold_overhead_s`: from a submit on a model without workers until its result is there, less what
this worker's process needs from its start until it is ready, measured alone in the same run. The
job does nothing. Then workers are taken from running jobs by an order to go to zero.
`python -m benchmarks.cold`
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks.figures import figure, publish

ALONE, LAPS = 5, 4
TARGET_S = 2.0
PATIENCE_S = 90.0
LONG_JOBS, LONG_S = 6, 4.0
PLACES = 2


def main() -> None:
    if "--here" in sys.argv:
        for each in measure():
            print(json.dumps(each))
        return
    from benchmarks.both_databases import measured

    publish("cold", measured("benchmarks.cold"))


def measure() -> list[dict[str, Any]]:
    """The figures on the database that DATABASE_URL names."""
    from benchmarks import stage

    with ExitStack() as running:
        running.enter_context(stage.redis_server())
        key = stage.prepare()
        alone = [_spawn_to_ready() for _ in range(ALONE)]
        running.enter_context(stage.gateway())
        running.enter_context(stage.sweeper())
        _leave_soon()
        for command in (("manage.py", "forecaster"), ("-m", "scaler")):
            running.enter_context(
                stage.process(
                    sys.executable,
                    *command,
                    ready=lambda: True,
                    FOLDLINE_SCALER_TARGET="local",
                    FOLDLINE_LOCAL_WORKERS=str(PLACES),
                )
            )
        _wait(_has_decided)
        cold = [_cold_job(key) for _ in range(LAPS)]
        _order_to_zero_under_way(key)
        on: dict[str, Any] = {"database": stage.database()}
        return _figures(alone, cold, on)


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


def _spawn_to_ready() -> float:
    """Seconds from the start of a worker's process until it says that it is loaded."""
    began = time.perf_counter()
    worker = subprocess.Popen([sys.executable, "-m", "tasks.worker", "sleepy"], stdout=sys.stderr)
    _wait(lambda: _present("ready"))
    took = time.perf_counter() - began
    worker.terminate()
    worker.wait(PATIENCE_S)
    return took


def _leave_soon() -> None:
    """An idle worker is worth what its start costs, and no caller's time."""
    from foldline.catalog.models import Model
    from foldline.fleet.policies import wish

    wish(Model.objects.get(name="sleepy").pk, omega=0.0)


def _has_decided() -> bool:
    from foldline.fleet.models import ScalingDecision

    return ScalingDecision.objects.exists()


def _cold_job(key: str) -> float:
    """Seconds from the submit until the result, of a job that found no worker."""
    from foldline.jobs.models import Job

    _wait(lambda: not _present())
    job = _submit(key, seconds=0.0)
    _wait(lambda: Job.objects.get(id=job).state == "succeeded")
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
    _wait(lambda: _present("ready", "busy") == PLACES)
    for _ in range(LONG_JOBS):
        _submit(key, seconds=LONG_S)
    _wait(lambda: Job.objects.filter(state="running").count() == PLACES)
    pin(model, workers=0)
    _wait(lambda: not _present())
    pin(model, workers=None)
    _wait(lambda: not Job.objects.filter(state__in=("queued", "running")).exists())
    _wait(lambda: not _present())


_seeds = itertools.count()


def _submit(key: str, *, seconds: float) -> str:
    from benchmarks import stage

    # Between two jobs the gateway would close a connection that is kept.
    agent = stage.Agent(key)
    # Another seed is another call; equal ones would be answered from the first one's result.
    seed = next(_seeds)
    body = {"inputs": {"seconds": seconds, "echo": str(seed)}, "seed": seed}
    return str(agent.post("/v1/models/sleepy/jobs", json.dumps(body).encode())["id"])


def _present(*states: str) -> int:
    from foldline.fleet.models import Worker

    workers = Worker.objects.exclude(state="gone")
    return (workers.filter(state__in=states) if states else workers).count()


def _wait(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


if __name__ == "__main__":
    main()
