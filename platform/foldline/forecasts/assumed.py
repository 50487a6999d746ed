"""What is taken for granted of a model while nothing of it was measured."""

from __future__ import annotations

from foldline.scheduling.eta import ColdStart

JOB_S = {"online": 5.0, "long": 120.0, "bulk": 1800.0}
"""How long a job of each lane lasts."""


def cold_start(*, load_timeout_s: int) -> ColdStart:
    """A quarter of what its revision allows, and at worst all of it."""
    return ColdStart(p50_s=load_timeout_s / 4, p90_s=float(load_timeout_s))
