"""The worker's pulse: prolongs leases, hears of cancels, shows progress and signs of life."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection

from foldline.fleet import services as fleet
from foldline.jobs import services as jobs
from foldline.jobs.claims import Fence, Fenced
from tasks.probe import leave_sign

log = logging.getLogger(__name__)

SETTLE_S = 0.2
LAST_WORDS_S = 15.0  # longer than it takes to notice that the database is away
STANDING = ("state", "current_job")  # said with each beat: a row buried by mistake comes back


class Heartbeat(threading.Thread):
    """Beats every `settings.HEARTBEAT_S` for the worker and for each job it holds.

    A database that does not answer fences nobody: the worker computes on, and the guarded
    finish decides. Only a write that changed no row says that the job is lost.
    """

    def __init__(self, worker_id: UUID) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._worker_id = worker_id
        self._lock = threading.Lock()
        self._held: dict[str, Fence] = {}
        self._cancelled: set[str] = set()
        self._fenced: set[str] = set()
        self._progress: dict[str, dict[str, Any]] = {}
        self._saved: dict[str, int] = {}
        self._said: dict[str, Any] = {}
        self._standing: dict[str, Any] = {}
        self._wake = threading.Event()
        self._ended = threading.Event()

    def hold(self, fences: Iterable[Fence]) -> None:
        """Begin to beat for these jobs, which were claimed a moment ago."""
        with self._lock:
            self._held = {str(fence.job_id): fence for fence in fences}
            self._cancelled.clear()
            self._fenced.clear()
            self._progress.clear()
            self._saved.clear()

    def release(self) -> None:
        """The jobs are finished; beat for the worker alone."""
        with self._lock:
            self._held = {}

    def cancelled(self, job_id: str) -> bool:
        return job_id in self._cancelled

    def fenced(self, job_id: str) -> bool:
        return job_id in self._fenced

    def show(self, job_id: str, **progress: Any) -> None:
        """Keep the newest progress of a job for the next beat."""
        with self._lock:
            self._progress[job_id] = progress

    def saved(self, job_id: str, step: int) -> None:
        """A checkpoint was kept; the next beat notes it."""
        with self._lock:
            self._saved[job_id] = step

    def say(self, **changes: Any) -> None:
        """Report a change of the worker itself, soon."""
        with self._lock:
            self._said.update(changes)
            self._standing.update({name: changes[name] for name in STANDING if name in changes})
        self._wake.set()

    def end(self, **last_words: Any) -> None:
        """Say the last words and stop; returns when the thread has ended, or is not heard."""
        self._ended.set()
        self.say(**last_words)
        self.join(timeout=LAST_WORDS_S)

    def run(self) -> None:
        while True:
            if self._wake.wait(settings.HEARTBEAT_S):
                # A short job begins and ends within this pause, and is written once.
                self._ended.wait(SETTLE_S)
            self._wake.clear()
            ended = self._ended.is_set()
            leave_sign(str(self._standing.get("state", "starting")))
            try:
                self.beat()
            except DatabaseError as error:
                log.warning("heartbeat failed", extra={"reason": str(error)})
            # An idle connection between beats would cost the database one slot a worker.
            connection.close()
            if ended:
                return

    def beat(self) -> None:
        """One beat. Raises DatabaseError; what was to be said is then said next time."""
        with self._lock:
            held, said = dict(self._held), dict(self._said)
            standing = dict(self._standing)
            progress, self._progress = self._progress, {}
            saved, self._saved = self._saved, {}
        for job_id, fence in held.items():
            self._beat_for(job_id, fence, progress.get(job_id), saved.get(job_id))
        fleet.report(self._worker_id, **{**standing, **said})
        with self._lock:
            for name, value in said.items():
                if self._said.get(name) == value:
                    del self._said[name]

    def _beat_for(
        self, job_id: str, fence: Fence, progress: dict[str, Any] | None, step: int | None
    ) -> None:
        try:
            if jobs.heartbeat(fence):
                self._cancelled.add(job_id)
            if progress:
                jobs.progress(fence, **progress)
            if step is not None:
                jobs.checkpointed(fence, step=step)
        except Fenced:
            # Not while the finish is under way: then the job is no longer held.
            if self._held.get(job_id) == fence:
                self._fenced.add(job_id)
