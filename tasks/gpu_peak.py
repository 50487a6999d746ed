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
    """The greatest of what torch reserved and what the driver saw; each rise is told.

    Before the first job it is little more than the weights, and nobody may go by it: nothing is
    told until then.
    """

    def __init__(self, *, tell: Callable[[int], None]) -> None:
        self._lock = threading.Lock()
        self._held, self._told, self._worked = 0, 0, False
        self._tell = tell

    def worked(self, held_bytes: int) -> None:
        """A job has ended; torch reserved so much."""
        self._worked = True
        self.note(held_bytes)

    def note(self, held_bytes: int) -> None:
        with self._lock:
            self._held = max(self._held, held_bytes)
            held, told = self._held, self._told
            if not self._worked or held <= told + (STEP_BYTES if told else 0):
                return
            self._told = held
        self._tell(held)

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
