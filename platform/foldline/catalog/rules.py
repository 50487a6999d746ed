"""Which settings a revision may have: asked at sync, in the admin and before it goes live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldline.catalog.models import Lane, Revision

LONGEST_RUN_S = {Lane.ONLINE: 600, Lane.LONG: 3600, Lane.BULK: 7 * 24 * 3600}

# Whole numbers: (setting, least, most).
_BOUNDS = (
    ("max_batch_size", 1, 256),
    ("threads", 1, 128),
    ("load_timeout_s", 1, 3600),
    ("run_timeout_s", 1, LONGEST_RUN_S[Lane.BULK]),
    ("memory_mb", 64, 4 * 1024 * 1024),
)
SETTINGS = (
    "title",
    "description",
    "lane",
    "seed_default",
    *(name for name, _, _ in _BOUNDS),
)


def settings_problems(values: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with a revision's settings, by setting; values that are absent are skipped."""
    problems = {
        name: f"Must be a whole number from {least} to {most}."
        for name, least, most in _BOUNDS
        if name in values and not least <= values[name] <= most
    }
    for name in ("title", "description"):
        if name in values and not values[name].strip():
            problems[name] = "Must not be empty: agents choose a model by it."
    longest = LONGEST_RUN_S.get(values.get("lane", ""))
    if longest and "run_timeout_s" not in problems and values.get("run_timeout_s", 0) > longest:
        problems["run_timeout_s"] = (
            f"A job of the lane {values['lane']} runs at most {longest} s; choose a longer lane."
        )
    return problems


def problems_of(revision: Revision) -> dict[str, str]:
    return settings_problems({name: getattr(revision, name) for name in SETTINGS})
