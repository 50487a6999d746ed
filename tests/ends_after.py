"""An order to end that comes by itself, for processes that work in rounds."""

from __future__ import annotations

import threading


class EndsAfter(threading.Event):
    """Is set after so many waits, whose lengths it keeps; nobody sleeps."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self.waits = waits
        self.pauses: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout)
        return self.is_set()

    def is_set(self) -> bool:
        return len(self.pauses) >= self.waits
