"""`python -m benchmarks.fairness`: what fair order does for those who did not fill the line.

Two replays through the order the service decides by: tenant A sends 500 jobs and tenant B nine
interactive ones after it, beside others; and a day in which more work comes than eight workers
can do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from statistics import mean

from benchmarks.figures import figure, publish
from benchmarks.replay import Choose, Job, Pool, Replay, fair, fifo
from benchmarks.traces import RESIDUAL, Call, Trace

SEEDS = range(101, 106)
WORKERS = 8
MEDIAN_S = 90.0
LOAD = 1.05
DAY_S = 86_400.0
STARVED_S = 4 * 3600.0
"""A job that has not started after so long is called starved."""


def mass(seed: int) -> Trace:
    """A sends 500 batch jobs at once; B three interactive ones at 10, 30 and 60 minutes; C now
    and then some interactive ones, D some batch."""
    rng = random.Random(seed)
    calls = [_call(rng, 0.0, "A", "batch") for _ in range(500)]
    calls += [_call(rng, at_s, "B", "interactive") for at_s in (600, 1800, 3600) for _ in range(3)]
    for tenant, priority in (("C", "interactive"), ("D", "batch")):
        for _ in range(6):
            at_s, count = rng.uniform(0, 7200), rng.choice([3, 10, 30])
            calls += [_call(rng, at_s, tenant, priority) for _ in range(count)]
    return Trace(calls=tuple(sorted(calls, key=lambda call: call.at_s)))


def overload(seed: int) -> Trace:
    """A day at load 1.05: interactive jobs of A all the time, batch jobs of B, C and D."""
    rng = random.Random(seed)
    return Trace(calls=tuple(_stream(rng)))


def _stream(rng: random.Random) -> Iterator[Call]:
    each_s = MEDIAN_S * math.exp((0.5**2 + RESIDUAL**2) / 2)
    at_s = 0.0
    while at_s < DAY_S:
        tenant = rng.choices("ABCD", weights=[30, 30, 25, 15])[0]
        yield _call(rng, at_s, tenant, "interactive" if tenant == "A" else "batch")
        at_s += rng.expovariate(LOAD * WORKERS / each_s)


def _call(rng: random.Random, at_s: float, tenant: str, priority: str) -> Call:
    """Its size explains all but the residual of how long it takes."""
    middle_s = MEDIAN_S * math.exp(rng.gauss(0, 0.5))
    seconds = middle_s * math.exp(rng.gauss(0, RESIDUAL))
    size = round(10 * middle_s)
    return Call(at_s=at_s, tenant=tenant, priority=priority, size=size, seconds=seconds)


def played(trace: Trace, choose: Choose) -> list[Job]:
    pool = Pool(most=WORKERS, elastic=False)
    return Replay(trace=trace, pool=pool, seed=0, choose=choose, forecasts=False).run()


def waits(jobs: list[Job], *, tenant: str = "", priority: str = "") -> list[float]:
    return [
        job.wait_s
        for job in jobs
        if tenant in ("", job.call.tenant) and priority in ("", job.call.priority)
    ]


def main() -> None:
    order: dict[str, Choose] = {"fair": fair, "fifo": fifo}
    means, worst, last = {}, {}, {}
    for name, choose in order.items():
        runs = [played(mass(seed), choose) for seed in SEEDS]
        mine = [waits(run, tenant="B") for run in runs]
        means[name], worst[name] = mean(map(mean, mine)), max(map(max, mine))
        last[name] = mean(max(waits(run, tenant="A")) for run in runs)
    days = [played(overload(seed), fair) for seed in SEEDS]
    batch = [waits(day, priority="batch") for day in days]
    interactive = [waits(day, priority="interactive") for day in days]
    starved = sum(wait > STARVED_S for day in days for wait in waits(day))
    seeds = list(SEEDS)
    publish(
        "fairness",
        [
            figure("fair_wait_mean_s", means["fair"], unit="s", at_most=60, seeds=seeds),
            figure("fair_wait_max_s", worst["fair"], unit="s"),
            figure("fifo_wait_mean_s", means["fifo"], unit="s", seeds=seeds),
            figure("fifo_wait_max_s", worst["fifo"], unit="s"),
            figure("fair_last_of_500_s", last["fair"], unit="s"),
            figure("fifo_last_of_500_s", last["fifo"], unit="s"),
            figure("starved_jobs", starved, unit="jobs", exactly=0, after_s=STARVED_S, load=LOAD),
            figure("batch_wait_max_s", max(map(max, batch)), unit="s", load=LOAD),
            figure("interactive_wait_mean_s", mean(map(mean, interactive)), unit="s", load=LOAD),
        ],
    )


if __name__ == "__main__":
    main()
