"""Waiting for a condition in a measurement."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 90.0


def wait_until(true: Callable[[], object]) -> None:
    """Asked every 5 ms, so that what is measured ends when it did."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)
