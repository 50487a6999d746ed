"""The end of a process that works in rounds: SIGTERM and Ctrl-C set an event it looks at."""

from __future__ import annotations

import _thread
import signal
import threading
from typing import Any


def stop_event() -> threading.Event:
    """An event that SIGTERM and SIGINT set from now on. For the main thread."""
    stop = threading.Event()

    def ask(*_: Any) -> None:
        # Not here: the signal may have come in the middle of `stop.wait()`, and `set()` would wait
        # for ever for the lock that this very thread holds.
        _thread.start_new_thread(stop.set, ())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    return stop
