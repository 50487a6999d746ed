"""What a plugin prints, line by line into the log: bounded in length and in rate."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque

logger = logging.getLogger("foldline.plugin")

MAX_LINE_CHARS = 2000
LINES_PER_S = 100
BURST_LINES = 1000
TAIL_LINES = 20
_CHUNK = 64 * 1024


class PluginLog:
    """Reads a pipe to its end in a thread of its own and closes it.

    A plugin that prints faster than LINES_PER_S is not slowed down: lines are dropped and
    counted. The last lines are kept for a failure report.
    """

    def __init__(self, descriptor: int, *, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        self._open = b""
        self._left = float(BURST_LINES)
        self._seen = time.monotonic()
        self._dropped = 0
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._thread = threading.Thread(target=self._read, name=f"{name}-log", daemon=True)
        self._thread.start()

    def tail(self, *, patience_s: float = 5.0) -> tuple[str, ...]:
        """The last lines, after waiting a moment for the pipe to end."""
        self._thread.join(patience_s)
        return tuple(self._tail)

    def _read(self) -> None:
        try:
            while chunk := os.read(self._descriptor, _CHUNK):
                self._take(chunk)
            self._line(self._open)
            self._report_dropped()
        finally:
            os.close(self._descriptor)

    def _take(self, chunk: bytes) -> None:
        *lines, self._open = (self._open + chunk).split(b"\n")
        if len(self._open) > _CHUNK:
            lines, self._open = [*lines, self._open], b""
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        if not self._allows():
            self._dropped += 1
            return
        self._report_dropped()
        text = line[: MAX_LINE_CHARS * 4].decode("utf-8", "replace")
        text = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)
        text = text[:MAX_LINE_CHARS]
        self._tail.append(text)
        logger.info("%s: %s", self._name, text)

    def _report_dropped(self) -> None:
        if self._dropped:
            logger.warning("%s: %d lines dropped, printed too fast", self._name, self._dropped)
            self._dropped = 0

    def _allows(self) -> bool:
        now = time.monotonic()
        self._left = min(BURST_LINES, self._left + (now - self._seen) * LINES_PER_S)
        self._seen = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
