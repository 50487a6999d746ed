"""One call of a loaded plugin: items out, progress and answers in, under a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from model_plugins.frames import Frame, FrameError, encode
from tasks.channel import Channel, Closed
from tasks.messages import Answer, DeadlinePassed, Item, Progress, Saved, Stop, Stopped
from tasks.plugin_frames import (
    read_answers,
    read_checkpoint,
    read_peak_gpu,
    read_peak_rss,
    read_progress,
)

REPORTS = ("progress", "checkpoint")
"""Frames that may come before `done`."""


class CancelWanted(Exception):
    """The caller no longer wants any of the items; the plugin may still be asked nicely."""


class _GraceOver(Exception):
    pass


class Call:
    def __init__(
        self,
        channel: Channel,
        *,
        number: int,
        items: Sequence[Item],
        seconds_left: Callable[[], float],
        stop: Callable[[], Stop | None],
        progress: Callable[[str, Progress], None],
        saved: Callable[[Saved], None],
    ) -> None:
        self.peak_rss_bytes = 0
        self.peak_gpu_bytes = 0
        self._channel = channel
        self._number = number
        self._items = items
        self._jobs = frozenset(item.job for item in items)
        self._told: frozenset[str] = frozenset()
        self._seconds_left, self._stop = seconds_left, stop
        self._progress, self._saved = progress, saved

    def ask(self, frame: bytes) -> None:
        """Send the items. Raises DeadlinePassed, Stopped, Closed; then nothing can follow."""
        self._channel.send(frame, check=self._check_asking)

    def answers(self) -> list[Answer]:
        """Raises DeadlinePassed, Stopped, CancelWanted, Closed, FrameError."""
        while True:
            frame = self._channel.receive(check=self._check)
            if frame["type"] in REPORTS:
                self._report(frame)
                continue
            self._expect_done(frame)
            self.peak_rss_bytes = read_peak_rss(frame)
            self.peak_gpu_bytes = read_peak_gpu(frame)
            return read_answers(frame, self._items)

    def wind_down(self, grace_s: float) -> bool:
        """After CancelWanted: tell the plugin; True when it then ended the call by itself."""
        end = time.monotonic() + grace_s

        def check() -> None:
            if time.monotonic() >= end:
                raise _GraceOver

        try:
            self._tell(self._jobs, check=check)
            while True:
                frame = self._channel.receive(check=check)
                if frame["type"] not in REPORTS:
                    self._expect_done(frame)
                    return True
        except (_GraceOver, Closed, FrameError):
            return False

    def _check_asking(self) -> None:
        if self._seconds_left() <= 0:
            raise DeadlinePassed
        stop = self._stop()
        if stop is not None and (stop.reason == "fenced" or self._wanted(stop) == self._jobs):
            raise Stopped(stop.reason)

    def _check(self) -> None:
        if self._seconds_left() <= 0:
            raise DeadlinePassed
        stop = self._stop()
        if stop is None:
            return
        if stop.reason == "fenced":
            raise Stopped(stop.reason)
        unwanted = self._wanted(stop)
        if unwanted == self._jobs:
            raise CancelWanted
        self._tell(unwanted, check=self._check_asking)

    def _wanted(self, stop: Stop) -> frozenset[str]:
        return stop.jobs & self._jobs if stop.jobs else self._jobs

    def _tell(self, jobs: frozenset[str], *, check: Callable[[], None]) -> None:
        for job in sorted(jobs - self._told):
            self._channel.send(encode("cancel", call=self._number, job=job), check=check)
            self._told |= {job}

    def _report(self, frame: Frame) -> None:
        if frame["type"] == "checkpoint":
            if (saved := read_checkpoint(frame, self._items)) is not None:
                self._saved(saved)
            return
        job, progress = read_progress(frame)
        if job in self._jobs:
            self._progress(job, progress)

    def _expect_done(self, frame: Frame) -> None:
        if frame["type"] != "done" or frame.get("call") != self._number:
            raise FrameError(f"`done` of call {self._number} was due, not {frame['type'][:40]!r}")
