"""Leaving: notice that the worker must stop, and leave even when Redis does not answer."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from celery.worker import state
from django.db import connection

log = logging.getLogger(__name__)

GRACE_S = 10.0
LOOK_S = 0.5
ASK_S = 2.0
EX_OK = 0


def draining() -> bool:
    """Whether Celery was told to stop. Its flags hold an exit code, which may be 0."""
    flags = (state.should_stop, state.should_terminate)
    return any(flag is not None and flag is not False for flag in flags)


class Watchdog(threading.Thread):
    """Says once that a drain has begun, and ends the process when it has been idle for `grace_s`
    in it.

    It is said while a job still runs, perhaps for half an hour: forecasts must not count on a
    worker that takes no other.

    Celery acknowledges on its main thread, which a frozen Redis blocks for ever. By then every
    result is durable and the ticket is only a ticket, so nothing is lost by leaving.
    """

    def __init__(
        self,
        *,
        busy: Callable[[], bool],
        begun: Callable[[], None],
        leave: Callable[[], None],
        grace_s: float = GRACE_S,
    ) -> None:
        super().__init__(name="drain-watchdog", daemon=True)
        self._busy, self._begun, self._leave, self._grace_s = busy, begun, leave, grace_s
        self.ended = threading.Event()

    def run(self) -> None:
        while not draining():
            if self.ended.wait(LOOK_S):
                return
        self._begun()
        idle = 0.0
        while not self.ended.wait(LOOK_S):
            idle = idle + LOOK_S if not self._busy() else 0.0
            if idle >= self._grace_s:
                log.warning("the broker does not answer: leaving without its goodbye")
                self._leave()
                os._exit(0)


class Leaver(threading.Thread):
    """Ends a worker that serves one job when there is none for it: the one it came for was
    cancelled, has expired, or was taken by another.

    Nobody loses a job by that. One that comes in this moment stays in line, and whoever ordered
    this worker orders the next. One that was claimed in this moment is finished first.
    """

    def __init__(self, *, busy: Callable[[], bool], wanted: Callable[[], bool]) -> None:
        super().__init__(name="leaver", daemon=True)
        self._busy, self._wanted = busy, wanted
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(ASK_S):
            if not self._busy() and not self._is_wanted():
                log.info("nothing waits that this worker could take: leaving")
                state.should_stop = EX_OK  # type: ignore[assignment]  # its first value is None
                return

    def _is_wanted(self) -> bool:
        """True also while nobody can tell."""
        try:
            return self._wanted()
        except Exception as error:  # a thread that ended would leave a worker that never leaves
            log.warning("whether it is wanted is not known", extra={"reason": repr(error)})
            return True
        finally:
            connection.close()
