"""The process that walks the lines. One forecaster leads; others stand by."""

from __future__ import annotations

import gc
import logging
import os
import socket
import threading
import time
from contextlib import suppress

from django.db import DatabaseError, connection

from foldline.clock import database_now
from foldline.forecasts.walker import Walker
from foldline.jobs.leading import give_up, lead

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
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._walker: Walker | None = None

    def run(self, stop: threading.Event) -> None:
        """Walk until `stop` is set, and let the next one begin at once. A database that is away
        ends no forecaster."""
        pause_s = 0.0
        while not stop.wait(pause_s):
            began = time.process_time()
            try:
                self.walk()
            except DatabaseError as error:
                self._walker = None
                log.warning("walk failed", extra={"reason": str(error)})
            connection.close()
            pause_s = pause_after(time.process_time() - began)
        # Else forecasts would be stale by the time the silence is noticed, at each release.
        with suppress(DatabaseError):
            give_up(DUTY, name=self.name)
        connection.close()

    def walk(self) -> bool:
        """One round, if this one leads. Raises DatabaseError."""
        if not lead(DUTY, name=self.name, now=database_now(), keep_s=SILENCE_S):
            self._walker = None
            return False
        if self._walker is None:
            self._walker = Walker()
            self._walker.begin()
        # Tens of thousands of values come and go, and none of them in a circle: looking for
        # one again and again would cost a quarter of the walk.
        gc.disable()
        try:
            self._walker.walk()
        finally:
            gc.enable()
        return True


def pause_after(cpu_s: float) -> float:
    """Seconds until the next walk, after one that took so much of a core."""
    return min(max(WALK_S, cpu_s / CPU_SHARE), SILENCE_S / 2)
