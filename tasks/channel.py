"""Frames over two non-blocking pipes, for the side that must never be made to wait."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from model_plugins.frames import HEADER, Frame, body_length, decode

TICK_MS = 50
_CHUNK = 256 * 1024


class Closed(Exception):
    """The other end is gone, or has closed its pipe."""


class Channel:
    """Sends and receives frames; `check` is called at least every 50 ms and may raise.

    What was received of a frame is kept when `check` raises, so that reading can go on; a
    frame that was sent in part makes the channel useless. `watch` is a descriptor that
    becomes readable when the other end's process has ended.
    """

    def __init__(self, *, reads: int, writes: int, watch: int) -> None:
        self._reads, self._writes, self._watch = reads, writes, watch
        self._buffer = bytearray()
        self._size: int | None = None
        for descriptor in (reads, writes):
            os.set_blocking(descriptor, False)
        self._readable = select.poll()
        self._readable.register(reads, select.POLLIN)
        self._readable.register(watch, select.POLLIN)
        self._writable = select.poll()
        self._writable.register(writes, select.POLLOUT)

    def send(self, frame: bytes, *, check: Callable[[], None]) -> None:
        """Raises Closed, and whatever `check` raises."""
        left = memoryview(frame)
        while left:
            check()
            try:
                left = left[os.write(self._writes, left) :]
            except BlockingIOError:
                self._writable.poll(TICK_MS)
            except BrokenPipeError as error:
                raise Closed from error

    def receive(self, *, check: Callable[[], None]) -> Frame:
        """Raises Closed, FrameError, and whatever `check` raises."""
        while True:
            check()
            frame = self._complete()
            if frame is not None:
                return frame
            ready = {descriptor for descriptor, _ in self._readable.poll(TICK_MS)}
            if self._reads in ready:
                self._fill()
            elif self._watch in ready:
                raise Closed

    def _complete(self) -> Frame | None:
        if self._size is None and len(self._buffer) >= HEADER.size:
            self._size = body_length(bytes(self._buffer[: HEADER.size]))
            del self._buffer[: HEADER.size]
        if self._size is None or len(self._buffer) < self._size:
            return None
        body = bytes(self._buffer[: self._size])
        del self._buffer[: self._size]
        self._size = None
        return decode(body)

    def _fill(self) -> None:
        try:
            part = os.read(self._reads, _CHUNK)
        except BlockingIOError:
            return
        if not part:
            raise Closed
        self._buffer += part
