from __future__ import annotations

from dataclasses import replace
from statistics import mean

import pytest

from benchmarks.eta import scored
from benchmarks.fairness import mass, played, waits
from benchmarks.replay import Job, Pool, Replay, fair, fifo
from benchmarks.traces import WORKERS, Trace, losing, steady


def replayed(trace: Trace) -> list[Job]:
    return Replay(trace=trace, pool=Pool(most=WORKERS), seed=1, samples=15).run()


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return replayed(steady(1, days=0.7))


def test_every_job_starts_and_most_of_those_that_wait_are_told_when(jobs: list[Job]) -> None:
    assert all(job.started_s is not None for job in jobs)
    late = [job for job in jobs if job.wait_s > 2]
    assert late
    assert all(job.told is not None for job in late)


def test_forecasts_beat_position_times_mean_over_workers(jobs: list[Job]) -> None:
    score = scored(jobs)
    assert score.mape < 0.35
    assert score.mape < 0.8 * score.naive_mape
    assert 0.75 < score.coverage < 0.99


def test_a_lost_worker_loses_no_job() -> None:
    trace = losing(2, days=0.15)
    jobs = replayed(trace)
    assert len(jobs) == len(trace.calls)
    assert all(job.started_s is not None for job in jobs)


def test_the_same_seed_tells_the_same() -> None:
    trace = steady(4, days=0.05)
    assert [job.told for job in replayed(trace)] == [job.told for job in replayed(trace)]


def test_nine_calls_do_not_wait_for_five_hundred() -> None:
    trace = mass(101)
    trace = replace(trace, calls=tuple(call for call in trace.calls if call.at_s <= 3600))
    served, queued = (waits(played(trace, choose), tenant="B") for choose in (fair, fifo))
    assert len(served) == 9
    assert mean(served) < 90
    assert mean(queued) > 20 * mean(served)
