"""Answers kept for a moment: what every request needs and what changes rarely."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEEP_S = 2.0
MAX_KEPT = 10_000


class Fresh(Generic[K, V]):
    """A table of values that are looked up again once they are older than `keep_s`.

    Thread-safe without a lock: two threads may look up the same value twice, and a failed
    look-up is kept by nobody.
    """

    def __init__(self, *, keep_s: float = KEEP_S) -> None:
        self._keep_s = keep_s
        self._kept: dict[K, tuple[float, V]] = {}

    def get(self, key: K, look_up: Callable[[], V]) -> V:
        now = time.monotonic()
        kept = self._kept.get(key)
        if kept is not None and now < kept[0]:
            return kept[1]
        value = look_up()
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[key] = (now + self._keep_s, value)
        return value

    def clear(self) -> None:
        self._kept.clear()
