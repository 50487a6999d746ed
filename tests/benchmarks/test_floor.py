from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from statistics import mean, median

import pytest

from benchmarks.floor import COUNTS, Oracle, floor_of, least_off
from benchmarks.replay import Job, Pool, Replay
from benchmarks.traces import WORKERS, burst_calls, steady

TRACE = steady(2, days=0.35)


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(rng=random.Random(1), since_s=3600.0, every=8)


@pytest.fixture(scope="module")
def jobs(oracle: Oracle) -> list[Job]:
    """A replay that somebody watched who draws its futures."""
    pool = Pool(most=WORKERS)
    return Replay(trace=TRACE, pool=pool, seed=1, samples=15, watch=oracle.watch).run()


def test_whoever_watches_a_replay_changes_nothing_in_it(jobs: list[Job]) -> None:
    alone = Replay(trace=TRACE, pool=Pool(most=WORKERS), seed=1, samples=15).run()
    assert [(job.started_s, job.told) for job in jobs] == [
        (job.started_s, job.told) for job in alone
    ]


def test_what_is_drawn_is_what_comes(jobs: list[Job], oracle: Oracle) -> None:
    """Few jobs in so short a trace, and those of a burst share their luck."""
    seen = floor_of(oracle, long_s=30.0)
    assert len(oracle.told) > 50
    assert 0.75 < seen.coverage <= 1.0
    assert seen.mape < 0.4


def test_nothing_of_the_future_is_known(jobs: list[Job], oracle: Oracle) -> None:
    """What comes after the first draw, and how long whatever runs then takes, changes it not."""
    first, draws = oracle.told[0]
    assert first.told is not None
    at_s = first.told.at_s
    calls = tuple(
        replace(job.call, seconds=2 * job.call.seconds)
        if job.started_s is None or job.started_s + job.call.seconds > at_s
        else job.call
        for job in jobs
        if job.call.at_s <= at_s
    )
    again = Oracle(rng=random.Random(1), since_s=3600.0, every=8)
    trace, pool = replace(TRACE, calls=calls), Pool(most=WORKERS)
    Replay(trace=trace, pool=pool, seed=1, samples=15, watch=again.watch).run()
    assert again.told[0][1] == draws


def test_bursts_are_as_long_as_the_generators() -> None:
    rng = random.Random(3)
    seen = Counter(len(list(burst_calls(rng, 0.0, lambda at_s: 1.0))) for _ in range(4000))
    assert sum(COUNTS.values()) == pytest.approx(1.0)
    for least, most in ((1, 1), (2, 2), (3, 4), (5, 12), (40, 160)):
        share = sum(seen[count] for count in range(least, most + 1)) / 4000
        expected = sum(COUNTS.get(count, 0.0) for count in range(least, most + 1))
        assert share == pytest.approx(expected, abs=0.02)


def test_the_point_that_is_off_least_lies_below_the_median() -> None:
    rng = random.Random(2)
    draws = [rng.lognormvariate(5, 0.4) for _ in range(400)]

    def off(point: float) -> float:
        return mean(abs(point - wait) / wait for wait in draws if wait >= 30)

    point = least_off(draws, long_s=30.0)
    assert point < median(draws)
    assert all(off(point) <= off(point * factor) for factor in (0.8, 0.9, 0.97, 1.03, 1.1, 1.2))
