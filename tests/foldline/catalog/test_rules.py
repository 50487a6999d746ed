from __future__ import annotations

from typing import Any

import pytest

from foldline.catalog.rules import settings_problems

GOOD: dict[str, Any] = {
    "title": "Fold",
    "description": "Folds.",
    "lane": "online",
    "seed_default": "fixed",
    "max_batch_size": 1,
    "threads": 1,
    "load_timeout_s": 10,
    "run_timeout_s": 60,
    "memory_mb": 512,
}


def test_sensible_settings_pass() -> None:
    assert settings_problems(GOOD) == {}


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"run_timeout_s": 0}, "run_timeout_s"),
        ({"run_timeout_s": 7200}, "run_timeout_s"),
        ({"load_timeout_s": 0}, "load_timeout_s"),
        ({"threads": 0}, "threads"),
        ({"threads": 1000}, "threads"),
        ({"max_batch_size": 0}, "max_batch_size"),
        ({"memory_mb": 1}, "memory_mb"),
        ({"description": " \n"}, "description"),
        ({"title": ""}, "title"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named(change: dict[str, Any], setting: str) -> None:
    assert list(settings_problems({**GOOD, **change})) == [setting]


def test_a_longer_lane_allows_longer_jobs() -> None:
    assert settings_problems({**GOOD, "lane": "bulk", "run_timeout_s": 7200}) == {}


def test_settings_that_are_absent_are_not_judged() -> None:
    assert settings_problems({"lane": "online"}) == {}
