"""What impatient clients cost: 30 calls, each sent 5 times at once, and how often a model runs.

Told apart by idempotency keys; then without keys, as equal calls with a seed; then, as a
control, equal calls of a generator without a seed, each of which must run.
`python -m benchmarks.storm`
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks.both_databases import on_both
from benchmarks.figures import figure

CALLS = 30
RETRIES = 5
SECONDS = 0.2

Call = tuple[dict[str, Any], dict[str, str]]
"""A body and the headers of its own."""


def main() -> None:
    on_both("storm", measure)


def measure() -> list[dict[str, Any]]:
    """The figures on the database that DATABASE_URL names."""
    from benchmarks import stage

    with ExitStack() as running:
        running.enter_context(stage.redis_server())
        key = stage.prepare()
        stage.set_live("dice")
        running.enter_context(stage.gateway())
        running.enter_context(stage.sweeper())
        for model in ("sleepy", "dice"):
            running.enter_context(stage.worker(model, ready=partial(_is_ready, model)))
        on: dict[str, Any] = {"database": stage.database(), "distinct": CALLS}
        return [
            _storm("sleepy", _with_keys(), key, by="idempotency key", **on),
            _storm("sleepy", _with_seeds(), key, by="seed", **on),
            _storm("dice", _unseeded(), key, name="control_runs", by="nothing", **on),
        ]


def _with_keys() -> list[Call]:
    """Every try of a call carries the call's key."""
    calls = [
        ({"inputs": {"seconds": SECONDS, "echo": f"key {n}"}}, {"Idempotency-Key": f"call-{n}"})
        for n in range(CALLS)
    ]
    return calls * RETRIES


def _with_seeds() -> list[Call]:
    """No try says that it is one: they are equal calls."""
    calls: list[Call] = [
        ({"inputs": {"seconds": SECONDS, "echo": f"seed {n}"}, "seed": 17}, {})
        for n in range(CALLS)
    ]
    return calls * RETRIES


def _unseeded() -> list[Call]:
    return [({"inputs": {"dice": 5}}, {})] * CALLS


def _storm(
    model: str, calls: Sequence[Call], key: str, *, name: str = "storm_runs", **on: Any
) -> dict[str, Any]:
    """Send all at once, wait until nothing waits, and count the runs that were begun."""
    from foldline.jobs.models import Attempt, Job

    runs, jobs = Attempt.objects.count(), Job.objects.count()
    began = time.monotonic()
    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(lambda call: _post(model, call, key), calls))
    accepted_s = time.monotonic() - began
    _wait_until_all_succeeded()
    return figure(
        name,
        Attempt.objects.count() - runs,
        unit="runs",
        exactly=CALLS,
        submits=len(calls),
        jobs=Job.objects.count() - jobs,
        accepted_s=round(accepted_s, 2),
        **on,
    )


def _post(model: str, call: Call, key: str) -> None:
    from benchmarks import stage

    body, headers = call
    agent = stage.Agent(key, **headers)
    agent.post(f"/v1/models/{model}/jobs", json.dumps(body).encode())


def _wait_until_all_succeeded() -> None:
    from foldline.jobs.models import Job

    deadline = time.monotonic() + 120
    while Job.objects.filter(state__in=["queued", "running"]).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not Job.objects.exclude(state="succeeded").exists()


def _is_ready(model: str) -> bool:
    from foldline.fleet.models import Worker

    return Worker.objects.filter(state="ready", revision__model__name=model).exists()


if __name__ == "__main__":
    main()
