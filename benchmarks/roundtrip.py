"""How long a job that does nothing takes, over a Celery task that does nothing.

Ours goes through HTTP, a claim, a real plugin process and one stored file, with fsync on.
Both are measured in turns, and the caller polls for ours. `python -m benchmarks.roundtrip`
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.both_databases import on_both
from benchmarks.figures import figure

PAIRS = 200
TARGET = 4.0
POLL_S = 0.001


def main() -> None:
    on_both("roundtrip", measure)


def measure() -> list[dict[str, Any]]:
    """The figures on the database that DATABASE_URL names."""
    from benchmarks import stage

    with ExitStack() as running:
        running.enter_context(stage.redis_server())
        agent = stage.Agent(stage.prepare())
        running.enter_context(stage.gateway())
        running.enter_context(stage.worker("sleepy", ready=_worker_is_ready))
        bare = running.enter_context(_bare_celery())
        ours, theirs = _in_turns(lambda: _job(agent), bare)
    ratio = statistics.median(ours) / statistics.median(theirs)
    on: dict[str, Any] = {"database": stage.database(), "pairs": PAIRS}
    return [
        figure("roundtrip_ratio", ratio, unit="ratio", at_most=TARGET, **on),
        *_spread("roundtrip", ours, on),
        *_spread("bare_celery", theirs, on),
    ]


def _in_turns(*sides: Callable[[], None]) -> tuple[list[float], ...]:
    """Milliseconds of each call of each side, after a tenth of them to warm up."""
    took: tuple[list[float], ...] = tuple([] for _ in sides)
    for lap in range(PAIRS + PAIRS // 10):
        for side, call in enumerate(sides):
            began = time.perf_counter()
            call()
            if lap >= PAIRS // 10:
                took[side].append((time.perf_counter() - began) * 1e3)
    return took


def _spread(name: str, milliseconds: list[float], on: dict[str, Any]) -> list[dict[str, Any]]:
    p95 = statistics.quantiles(milliseconds, n=20)[-1]
    return [
        figure(f"{name}_p50_ms", statistics.median(milliseconds), unit="ms", **on),
        figure(f"{name}_p95_ms", p95, unit="ms", **on),
    ]


_seeds = itertools.count()


def _job(agent: Any) -> None:
    # Another seed is another call; equal ones would be answered from the first one's result.
    seed = next(_seeds)
    body = {"inputs": {"seconds": 0, "echo": str(seed), "file": True}, "seed": seed}
    job = agent.post("/v1/models/sleepy/jobs", json.dumps(body).encode())
    while job["state"] in ("queued", "running"):
        time.sleep(POLL_S)
        job = agent.get(f"/v1/jobs/{job['id']}")
    assert job["state"] == "succeeded", job


def _worker_is_ready() -> bool:
    from foldline.fleet.models import Worker

    return Worker.objects.filter(state="ready").exists()


@contextmanager
def _bare_celery() -> Iterator[Callable[[], None]]:
    """A worker with the no-op task; gives a call that waits for its result."""
    from benchmarks import stage
    from benchmarks.bare_celery import app, nothing

    command = [sys.executable, "-m", "celery", "-A", "benchmarks.bare_celery", "worker"]
    quiet = ["--without-gossip", "--without-mingle", "--loglevel", "WARNING"]

    def call() -> None:
        nothing.delay().get(timeout=30)

    with stage.process(
        *command, *quiet, ready=lambda: bool(app.control.inspect(timeout=0.5).ping())
    ):
        yield call


if __name__ == "__main__":
    main()
