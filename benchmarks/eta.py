"""`python -m benchmarks.eta`: how right the forecasts of waiting times are.

Generated traces are replayed through the functions the service forecasts with. Parameters were
chosen on the seeds of TUNING and on steady traces alone; the figures are of HELD_OUT. The first
half day of each trace is there to learn from and not scored. Each figure is the mean over the
seeds, with a 95 % interval of that mean. The floors are what `benchmarks.floor` says that nobody
could do better, at some of the walks of the same replays.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import sqrt
from statistics import mean, stdev
from typing import Any

from benchmarks.figures import figure, publish
from benchmarks.floor import Floor, Oracle, floor_of
from benchmarks.replay import Job, Pool, Replay, Watch
from benchmarks.traces import WORKERS, Trace, drifting, losing, steady

TUNING = range(1, 5)
HELD_OUT = range(1001, 1013)
DAYS = 1.5
LEARN_S = 43_200.0
LONG_S = 30.0
T95 = {4: 3.182, 12: 2.201}
"""Student's t for so many seeds."""

OTHER_TRACES: dict[str, Callable[..., Trace]] = {"drift_": drifting, "lost_": losing}
OTHERS = HELD_OUT[:4]
"""Traces that drift or lose workers are shown beside, on fewer seeds."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """One trace. `mape`: mean of |p50 - wait| / wait over waits of 30 s and more; `coverage`:
    the share that began before the p90; `sharpness`: mean p90 over mean wait."""

    mape: float
    naive_mape: float
    coverage: float
    sharpness: float
    mean_wait_s: float
    forecasts: int


def scored(jobs: Sequence[Job]) -> Score:
    told = [
        (job.started_s - job.told.at_s, job.told)
        for job in jobs
        if job.told is not None and job.started_s is not None and job.told.at_s >= LEARN_S
    ]
    long = [(wait, each) for wait, each in told if wait >= LONG_S]
    mean_wait_s = mean(wait for wait, _ in told)
    return Score(
        mape=mean(abs(each.p50_s - wait) / wait for wait, each in long),
        naive_mape=mean(abs(each.naive_s - wait) / wait for wait, each in long),
        coverage=mean(wait <= each.p90_s for wait, each in told),
        sharpness=mean(each.p90_s for _, each in told) / mean_wait_s,
        mean_wait_s=mean_wait_s,
        forecasts=len(told),
    )


def replayed(
    seed: int, *, trace: Callable[..., Trace], days: float = DAYS, watch: Watch | None = None
) -> Score:
    replay = Replay(trace=trace(seed, days=days), pool=Pool(most=WORKERS), seed=seed, watch=watch)
    return scored(replay.run())


def watched(seed: int) -> tuple[Score, Floor]:
    """A replay of a steady trace, beside one who knows all that can be known."""
    oracle = Oracle(rng=random.Random(seed), since_s=LEARN_S)
    score = replayed(seed, trace=steady, watch=oracle.watch)
    return score, floor_of(oracle, long_s=LONG_S)


def floor_figures(scores: Sequence[Score], floors: Sequence[Floor]) -> list[dict[str, Any]]:
    """What the service is off by, less what it is off by beyond the floor where that was drawn:
    so few jobs are no fair sample by themselves (`drawn`, and `service` told of the same ones).
    `any_point`: of the point forecast that is off least in the mean, which lies below the median;
    a p50 is a median, and stays one."""
    both = list(zip(scores, floors, strict=True))
    return [
        _floor_figure(
            "mape",
            [score.mape - floor.service_mape + floor.mape for score, floor in both],
            drawn=mean(floor.mape for floor in floors),
            service=mean(floor.service_mape for floor in floors),
            any_point=mean(s.mape - floor.service_mape + floor.least_mape for s, floor in both),
        ),
        _floor_figure(
            "sharpness",
            [score.sharpness - floor.service_sharpness + floor.sharpness for score, floor in both],
            drawn=mean(floor.sharpness for floor in floors),
            service=mean(floor.service_sharpness for floor in floors),
            p90_coverage=mean(floor.coverage for floor in floors),
        ),
    ]


def _floor_figure(what: str, each: Sequence[float], **beside: float) -> dict[str, Any]:
    more: dict[str, Any] = {name: round(value, 3) for name, value in beside.items()}
    seeds, interval = [HELD_OUT[0], HELD_OUT[-1]], _interval(each)
    name = f"eta_{what}_floor"
    return figure(name, mean(each), unit="ratio", interval_95=interval, seeds=seeds, **more)


def figures(name: str, scores: Sequence[Score], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The figures of one kind of trace; only the steady one has targets."""
    aimed = not name
    values: dict[str, dict[str, Any]] = {
        "mape": {"at_most": 0.20} if aimed else {},
        "naive_mape": {},
        "p90_coverage": {"between": (0.88, 0.93)} if aimed else {},
        "sharpness": {"at_most": 1.4} if aimed else {},
        "mean_wait": {},
    }
    of = {"p90_coverage": "coverage", "mean_wait": "mean_wait_s"}
    told = []
    for what, target in values.items():
        each = [getattr(score, of.get(what, what)) for score in scores]
        shown = what if what == "naive_mape" else f"eta_{what}"
        told.append(
            figure(
                f"{name}{shown}",
                mean(each),
                unit="s" if what == "mean_wait" else "ratio",
                interval_95=_interval(each),
                lowest=round(min(each), 3),
                highest=round(max(each), 3),
                seeds=[seeds[0], seeds[-1]],
                forecasts=sum(score.forecasts for score in scores),
                **target,
            )
        )
    return told


def _interval(values: Sequence[float]) -> list[float]:
    """Of the mean, by Student's t."""
    half = T95[len(values)] * stdev(values) / sqrt(len(values))
    return [round(mean(values) - half, 3), round(mean(values) + half, 3)]


def main() -> None:
    told = []
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        scores, floors = zip(*processes.map(watched, HELD_OUT), strict=True)
        told += figures("", scores, HELD_OUT) + floor_figures(scores, floors)
        for name, trace in OTHER_TRACES.items():
            others = list(processes.map(partial(replayed, trace=trace), OTHERS))
            told += figures(name, others, OTHERS)
    publish("eta", told)


if __name__ == "__main__":
    main()
