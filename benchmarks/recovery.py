"""The same faults on plain Celery and on Foldline: lost, doubled, and how long until it goes on.

Two workers, six jobs of four seconds, and in the middle of the first two: a worker is killed;
Redis is killed and comes back empty; all connections to Redis are cut. Our settings are the
defaults. A job of four seconds stands for one of minutes, and Celery's visibility timeout of
60 s for its default of an hour, because a measurement must end. `python -m benchmarks.recovery`
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import figure, publish
from benchmarks.plain_celery import VISIBILITY_S
from benchmarks.recovery_sides import SECONDS, Run, Started, celery_side, our_side, wait

JOBS = 6


def main() -> None:
    """Both sides at the same time, since they mostly sleep."""
    with ThreadPoolExecutor(2) as pool:
        told = [pool.submit(_measure, side) for side in (celery_side, our_side)]
        theirs, ours = [each.result() for each in told]
    publish("recovery", _figures("celery", theirs) + _figures("foldline", ours))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a fault did to the jobs of its time.

    `recovery_s`: from the fault until the job that was cut off, or any that waited, begins;
    None when none did.
    """

    lost: int
    doubled: int
    recovery_s: float | None


def _measure(start: Callable[[], AbstractContextManager[Started]]) -> dict[str, Outcome]:
    with start() as side:
        return {fault: _suffer(side, fault) for fault in FAULTS}


def _suffer(side: Started, fault: str) -> Outcome:
    jobs = [side.submit() for _ in range(JOBS)]

    def of_these() -> list[Run]:
        return [run for run in side.runs() if run.job in jobs]

    wait(lambda: len(of_these()) >= 2, within_s=30)
    hit = of_these()[0]
    at = time.time()
    FAULTS[fault](side, hit)
    wait(lambda: _all_ended(of_these(), jobs), within_s=side.patience_s(fault))
    wait(lambda: all(run.ended for run in of_these() if run.began > at), within_s=2 * SECONDS)
    return _judged(of_these(), jobs, at=at, hit=hit.job if fault == "worker_killed" else "")


FAULTS: Mapping[str, Callable[[Started, Run], None]] = {
    "connections_cut": lambda side, _hit: side.cut_connections(),
    "redis_back_empty": lambda side, _hit: side.empty_redis(),
    # Last: by then our sweeper has run for longer than it needs to judge leases.
    "worker_killed": lambda side, hit: side.kill_worker(hit.worker),
}


def _all_ended(runs: Sequence[Run], jobs: Sequence[str]) -> bool:
    return set(jobs) <= {run.job for run in runs if run.ended}


def _judged(runs: Sequence[Run], jobs: Sequence[str], *, at: float, hit: str) -> Outcome:
    ended = [run.job for run in runs if run.ended]
    later = [run.began - at for run in runs if run.began > at and (not hit or run.job == hit)]
    return Outcome(
        lost=len(set(jobs) - set(ended)),
        doubled=len(ended) - len(set(ended)),
        recovery_s=min(later, default=None),
    )


SCALE: Mapping[str, dict[str, Any]] = {
    "celery": {"visibility_timeout_s": VISIBILITY_S, "its_default_s": 3600},
    "foldline": {"lease_s": 20, "its_default_s": 20},
}


def _figures(system: str, outcomes: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    lines = []
    for fault, outcome in outcomes.items():
        on: dict[str, Any] = {"system": system, "fault": fault, "jobs": JOBS, **SCALE[system]}
        goal: dict[str, Any] = {"exactly": 0} if system == "foldline" else {}
        lines.append(figure("recovery_lost", outcome.lost, unit="jobs", **goal, **on))
        lines.append(figure("recovery_doubled", outcome.doubled, unit="jobs", **goal, **on))
        if outcome.recovery_s is not None:
            bound: dict[str, Any] = {"at_most": 30.0} if system == "foldline" else {}
            lines.append(figure("recovery_s", outcome.recovery_s, unit="s", **bound, **on))
    return lines


if __name__ == "__main__":
    main()
