"""The process that walks the lines. One forecaster leads; others stand by."""

from __future__ import annotations

import gc
import logging
import threading
import time

from django.db import connection

from foldline.forecasts.walker import Walker
from foldline.jobs.faults import DATABASE_AWAY, contained
from foldline.jobs.leading import Leader

log = logging.getLogger(__name__)

DUTY = "forecast"
WALK_S = 2.0
CPU_SHARE = 0.1
SILENCE_S = 30.0
"""After which another one takes over; no pause is longer."""


class Forecaster:
    """Walks every two seconds while it leads; less often where that would take more than a
    tenth of a core."""

    def __init__(self, *, name: str = "") -> None:
        self._leads = Leader(DUTY, keep_s=SILENCE_S, name=name)
        self._walker: Walker | None = None

    def run(self, stop: threading.Event) -> None:
        """Walk until `stop` is set, and let the next one begin at once. A database that is away
        ends no forecaster."""
        pause_s = 0.0
        while not stop.wait(pause_s):
            began = time.process_time()
            try:
                contained("forecast", self.walk, otherwise=False)
            except DATABASE_AWAY as error:
                log.warning("walk failed", extra={"reason": str(error)})
            connection.close()
            pause_s = pause_after(time.process_time() - began)
        # Else forecasts would be stale by the time the silence is noticed, at each release.
        self._leads.end()
        connection.close()

    def walk(self) -> bool:
        """One round, if this one leads. Raises DatabaseError."""
        if not self._leads():
            self._walker = None
            return False
        # Put back below: one whose walk failed may have gone half a step, and begins anew.
        walker, self._walker = self._walker, None
        if walker is None:
            walker = Walker()
            walker.begin()
        # Tens of thousands of values come and go, and none of them in a circle: looking for
        # one again and again would cost a quarter of the walk.
        gc.disable()
        try:
            walker.walk()
        finally:
            gc.enable()
        self._walker = walker
        return True


def pause_after(cpu_s: float) -> float:
    """Seconds until the next walk, after one that took so much of a core."""
    return min(max(WALK_S, cpu_s / CPU_SHARE), SILENCE_S / 2)
