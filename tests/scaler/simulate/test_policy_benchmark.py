from __future__ import annotations

from benchmarks.policy import HELD_OUT, measure

SPENT = {1, 2, 3, 11, 12, 13, 21, 22, 23, 24, 25, 26}


def test_the_measured_days_are_not_those_the_brain_was_made_on() -> None:
    assert not SPENT & set(HELD_OUT)
    assert len(HELD_OUT) >= 8


def test_a_short_run_tells_every_figure_and_reaches_it() -> None:
    """One spent day: the held-out ones are measured by the whole benchmark only."""
    figures = measure(seeds=[21], loads=[40], churns=20)
    told = {each["name"]: each for each in figures}
    assert set(told) == {
        "killed_jobs",
        "clairvoyant_ratio",
        "card_hours_ratio",
        "p95_wait_ratio",
        "long_p95_ratio",
        "fill_first_refused_pct",
        "mean_wait_s",
    }
    assert {name for name, each in told.items() if each["ok"] is False} <= {"long_p95_ratio"}
    assert told["fill_first_refused_pct"]["spreading_refused_pct"] > 1
    assert told["mean_wait_s"]["means"]["keda_defaults"]["killed"] > 0
    assert told["long_p95_ratio"]["worst_day"]["seed"] == 21
