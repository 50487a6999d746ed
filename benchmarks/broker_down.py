"""How long a submit takes while Redis does not answer.

Stopped (SIGSTOP) it neither answers nor refuses, as behind a partition; killed it refuses.
Eight agents submit at once, for longer than the breaker rests. `python -m benchmarks.broker_down`
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from benchmarks.both_databases import on_both
from benchmarks.figures import figure

AGENTS = 8
SECONDS = 12.0
PAUSE_S = 0.02
TARGET_MS = 500.0


def main() -> None:
    on_both("broker_down", measure)


def measure() -> list[dict[str, Any]]:
    """The figures on the database that DATABASE_URL names."""
    from benchmarks import stage

    figures = []
    with stage.redis_server() as redis:
        key = stage.prepare()
        with stage.gateway():
            for state, fault in _faults(redis).items():
                fault()
                took = _submitted(key)
                figures += _spread(took, redis=state, database=stage.database())
    return figures


def _faults(redis: int) -> dict[str, Callable[[], None]]:
    """By name, in the order they can happen to one Redis."""
    return {
        "up": lambda: None,
        "stopped": lambda: os.kill(redis, signal.SIGSTOP),
        "killed": lambda: os.kill(redis, signal.SIGKILL),
    }


def _submitted(key: str) -> list[float]:
    """Milliseconds of every submit of all agents; each was accepted, or this raises."""
    with ThreadPoolExecutor(AGENTS) as pool:
        each = pool.map(_submit_for_a_while, [key] * AGENTS)
        return [took for agent in each for took in agent]


def _submit_for_a_while(key: str) -> list[float]:
    from benchmarks import stage

    agent, took = stage.Agent(key), []
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        body = json.dumps({"inputs": {"seconds": 0, "echo": uuid4().hex}}).encode()
        began = time.perf_counter()
        agent.post("/v1/models/sleepy/jobs", body)
        took.append((time.perf_counter() - began) * 1e3)
        time.sleep(PAUSE_S)
    return took


def _spread(took: list[float], **on: Any) -> list[dict[str, Any]]:
    p99 = statistics.quantiles(took, n=100)[-1]
    on = {**on, "submits": len(took), "agents": AGENTS}
    target = None if on["redis"] == "up" else TARGET_MS
    return [
        figure("submit_p50_ms", statistics.median(took), unit="ms", **on),
        figure("submit_p99_ms", p99, unit="ms", at_most=target, **on),
        figure("submit_max_ms", max(took), unit="ms", **on),
    ]


if __name__ == "__main__":
    main()
