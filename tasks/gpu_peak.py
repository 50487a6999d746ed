"""The most memory a worker has held of its card, from everybody who can tell."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pynvml

from tasks.cards import Card, Gauge

log = logging.getLogger(__name__)

SAMPLE_S = 1.0
STEP_BYTES = 16 * 1024 * 1024
"""A rise below this is not worth a write; a quota has 15 % to spare."""


class GpuPeak:
    """The greatest of what torch reserved and what the driver saw; each rise is told."""

    def __init__(self, *, tell: Callable[[int], None]) -> None:
        self._lock = threading.Lock()
        self._told = 0
        self._tell = tell

    def note(self, held_bytes: int) -> None:
        with self._lock:
            if held_bytes <= self._told + (STEP_BYTES if self._told else 0):
                return
            self._told = held_bytes
        self._tell(held_bytes)

    def watch(self, card: Card) -> None:
        """Look at the card each second, in a thread of its own: a driver may hang, and a
        worker's sign of life must not wait for it."""
        threading.Thread(target=self._watch, args=(card,), name="gpu-peak", daemon=True).start()

    def _watch(self, card: Card) -> None:
        pause = threading.Event()
        try:
            gauge = Gauge(card)
            while not pause.wait(SAMPLE_S):
                self.note(gauge.held_bytes())
        except pynvml.NVMLError as error:
            log.warning("the card's memory is no longer measured", extra={"reason": str(error)})
