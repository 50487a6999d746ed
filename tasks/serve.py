"""What a ticket does: claim the next job of this worker's revision and run it."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from celery import Task
from celery.exceptions import Ignore
from celery.worker import state as celery_state
from django.db import DatabaseError, connection

from foldline.fleet.services import Assignment
from foldline.jobs import services as jobs
from foldline.jobs import tickets
from foldline.jobs.claims import ClaimedJob
from tasks.app import app
from tasks.attempt import Attempt, Outcome
from tasks.drain import EX_OK, draining
from tasks.gpu_peak import GpuPeak
from tasks.heartbeat import Heartbeat
from tasks.host import PluginHost, StartFailure

log = logging.getLogger(__name__)

LONGEST_PAUSE_S = 5.0
EX_TEMPFAIL = 75


class JobFailed(Exception):
    """A failure that is recorded; its text is what Flower shows."""


class DoesNotLoad(Exception):
    """The plugin died and does not come up again; the start of the worker is to be tried anew."""

    def __init__(self, failure: StartFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Draining(Exception):
    """The worker is to stop: take nothing more."""


@dataclass(kw_only=True)
class Desk:
    """What the serve task works with; there is one per process, set by `tasks.worker`."""

    assignment: Assignment
    name: str
    host: PluginHost
    heartbeat: Heartbeat
    gpu_peak: GpuPeak
    scratch: Path
    once: bool = False
    """Leave after the first job."""
    busy: threading.Event = field(default_factory=threading.Event)
    current: UUID | None = None

    def serve(self, task: Task[Any, Any]) -> list[Outcome]:
        """Claim and run; no outcomes when no job was waiting. Raises Draining."""
        self.heartbeat.say(ticket=str(task.request.id or ""))
        self.wait_until_loaded()
        claimed = self.claim()
        if not claimed:
            return []
        _announce(task, claimed)
        self.current = claimed[0].fence.job_id
        self.say_state()
        try:
            scratch = self.scratch / str(claimed[0].fence.job_id)
            return Attempt(claimed, scratch=scratch).run(self.host, self.heartbeat)
        finally:
            self.current = None
            self.say_state()
            self.gpu_peak.worked(self.host.peak_gpu_bytes)

    def wait_until_loaded(self) -> None:
        """Hold the ticket while the plugin restarts. Claiming first would take a job from
        workers that could run it now. Raises Draining and DoesNotLoad."""
        if self.host.ready.is_set():
            return
        self.say_state()
        while not self.host.ready.wait(0.1):
            if draining():
                raise Draining
            if self.host.gave_up is not None:
                raise DoesNotLoad(self.host.gave_up)
        self.say_state()

    def say_state(self) -> None:
        """Report what this worker does now; while its plugin loads, again when it has."""
        loaded = self.host.ready.is_set()
        state = "busy" if self.current else "ready" if loaded else "loading"
        self.heartbeat.say(state="draining" if draining() else state, current_job=self.current)
        if state == "loading":
            threading.Thread(target=self._say_when_loaded, daemon=True).start()

    def _say_when_loaded(self) -> None:
        while not draining():
            if self.host.ready.wait(1.0):
                self.say_state()
                return

    def leave(self, failure: StartFailure) -> str:
        """End this worker as one that could not start: whoever starts workers goes on from
        there, and the breaker counts it."""
        log.error("the model does not load any more", extra={"reason": failure.message})
        self.heartbeat.say(failure={"code": failure.code, "message": failure.message})
        celery_state.should_stop = EX_TEMPFAIL  # type: ignore[assignment]  # its first value is None
        return "the model does not load any more: no job taken"

    def claim(self) -> list[ClaimedJob]:
        """Claim, holding the ticket while the database is away: failing would burn through
        the whole queue in seconds."""
        pause = 0.1
        while True:
            if draining():
                raise Draining
            try:
                return jobs.claim(
                    revision_id=self.assignment.revision_id,
                    owner=self.name,
                    limit=1 if self.once else self.assignment.max_batch_size,
                )
            except DatabaseError as error:
                connection.close()
                log.warning("claim failed", extra={"reason": str(error)})
                time.sleep(pause)
                pause = min(LONGEST_PAUSE_S, pause * 2)


_desk: Desk | None = None


def occupy(desk: Desk) -> None:
    """Give the serve task of this process its desk."""
    global _desk
    _desk = desk


@app.task(bind=True, name=tickets.TASK, throws=(JobFailed,))
def serve(self: Task[Any, Any], version: int) -> str:
    """Serve one ticket. Returns only when the outcome is durable, which acknowledges it.

    The text returned or raised is for Flower; nothing else reads it.
    """
    if version != tickets.VERSION:
        return f"ticket version {version} is not known here"
    if _desk is None:
        return "this process serves no model"
    _desk.busy.set()
    try:
        outcomes = _desk.serve(self)
    except Draining:
        return "draining: no job taken"
    except DoesNotLoad as reason:
        return _desk.leave(reason.failure)
    finally:
        _desk.heartbeat.say(ticket="")
        _desk.busy.clear()
    # One that was put back in line comes again, to a model that is loaded.
    if _desk.once and any(outcome.state != "requeued" for outcome in outcomes):
        celery_state.should_stop = EX_OK  # type: ignore[assignment]  # its first value is None
    return _told(self, outcomes)


def _told(task: Task[Any, Any], outcomes: list[Outcome]) -> str:
    text = "; ".join(str(outcome) for outcome in outcomes) or "no job waiting"
    states = {outcome.state for outcome in outcomes}
    if states & {"failed", "requeued"}:
        raise JobFailed(text)
    if states == {"cancelled"}:
        _event(task, "task-revoked", terminated=True, signum="cancel", expired=False)
        raise Ignore
    return text


def _announce(task: Task[Any, Any], claimed: list[ClaimedJob]) -> None:
    """Tell Flower which job the ticket became, from a side thread: events use the broker,
    and a frozen one would hold the job up."""
    names = ", ".join(f"job {job.fence.job_id}, attempt {job.fence.attempt}" for job in claimed)
    threading.Thread(
        target=_event, args=(task, "task-started"), kwargs={"args": f"({names})"}, daemon=True
    ).start()


def _event(task: Task[Any, Any], kind: str, **fields: Any) -> None:
    try:
        task.send_event(kind, retry=False, **fields)
    except Exception as error:
        log.warning("event not sent", extra={"kind": kind, "reason": str(error)})
