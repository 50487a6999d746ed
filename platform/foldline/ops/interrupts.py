"""Ctrl-C: the first one interrupts whatever runs, the next one hurries the stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns the first signal into KeyboardInterrupt; later ones only set `urgent`."""

    def __init__(self) -> None:
        self.exit_status = 130
        self.stopping = False
        self.urgent = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self.stopping:
            self.urgent = True
            return
        self.stopping = True
        self.exit_status = 128 + number
        raise KeyboardInterrupt

    def begin_stop(self) -> None:
        """From here on a signal does not interrupt any more: it makes the stop urgent."""
        self.stopping = True


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """While inside, SIGINT, SIGTERM and SIGHUP go to an `Interrupts`."""
    handler = Interrupts()
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield handler
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
