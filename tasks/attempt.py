"""One attempt of claimed jobs: inputs onto disk, the plugin's answer back into the database."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import DatabaseError, IntegrityError, connection

from foldline.artifacts import services as artifacts
from foldline.artifacts.services import Stored
from foldline.errors import BodyTooLarge, Storage, job_error
from foldline.jobs import services as jobs
from foldline.jobs.checkpoints import discard
from foldline.jobs.claims import ClaimedJob, Fenced, Usage
from foldline.jobs.retries import CRASHES, OUT_OF_MEMORY
from foldline.jobs.states import State
from tasks import checkpoints
from tasks.heartbeat import Heartbeat
from tasks.host import (
    Answer,
    DeadlinePassed,
    Item,
    NotReady,
    PluginDied,
    PluginHost,
    Saved,
    Stop,
    Stopped,
)
from tasks.layout import lay_out

log = logging.getLogger(__name__)

# How long a result that is ready is offered to a database that does not answer.
COMMIT_PATIENCE_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one job of the attempt ended: a state, `lost` when fenced; the code of a failure."""

    job: ClaimedJob
    state: str
    code: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        fence = self.job.fence
        reason = f" ({self.code})" if self.code else ""
        name = f"job {fence.job_id} attempt {fence.attempt}"
        return f"{name} {self.state}{reason} in {self.seconds:.1f} s"


class Attempt:
    """Runs a list of jobs that were claimed together through the plugin, and records each."""

    def __init__(self, claimed: Sequence[ClaimedJob], *, scratch: Path) -> None:
        self._claimed = claimed
        self._scratch = scratch
        self._began = time.monotonic()
        self._ends = self._began + min(job.seconds_left for job in claimed)
        self._usage = Usage()
        self._warnings: dict[str, list[dict[str, str]]] = {}

    def run(self, host: PluginHost, heartbeat: Heartbeat) -> list[Outcome]:
        """Compute and record; one outcome a job. Raises nothing of the plugin's doing."""
        heartbeat.hold(job.fence for job in self._claimed)
        try:
            record = self._call(host, heartbeat)
            return [self._ended(job, record) for job in self._claimed]
        finally:
            heartbeat.release()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _call(self, host: PluginHost, heartbeat: Heartbeat) -> Callable[[ClaimedJob], Outcome]:
        """Ask the plugin, and give what is to be recorded for each job."""
        try:
            laid = [lay_out(job, self._scratch) for job in self._claimed]
        except (OSError, Storage) as error:
            return self._failure("storage", f"The inputs could not be laid out: {error}")
        self._warnings = {each.item.job: each.warnings for each in laid}
        try:
            answers = self._ask(host, [each.item for each in laid], heartbeat)
        except PluginDied as death:
            return self._failure(death.code, death.message)
        except DeadlinePassed:
            return self._late
        except Stopped as stopped:
            return self._stopped if stopped.reason == "cancel" else self._lost
        self._usage = Usage(
            peak_memory_bytes=host.peak_rss_bytes, peak_gpu_bytes=host.peak_gpu_bytes
        )
        by_job = {answer.job: answer for answer in answers}
        return lambda job: self._answered(job, by_job[str(job.fence.job_id)])

    def _ask(self, host: PluginHost, items: Sequence[Item], heartbeat: Heartbeat) -> list[Answer]:
        """Ask once the plugin is loaded: it may have died since the claim, while idle."""
        while True:
            try:
                return host.call(
                    items,
                    seconds_left=self._seconds_left,
                    stop=lambda: self._stop(heartbeat),
                    progress=lambda job, seen: heartbeat.show(
                        job, fraction=seen.fraction, stage=seen.stage, message=seen.message
                    ),
                    saved=lambda saved: self._keep(saved, heartbeat),
                )
            except NotReady:
                if (stop := self._stop(heartbeat)) is not None:
                    raise Stopped(stop.reason) from None
                if self._seconds_left() <= 0:
                    raise DeadlinePassed from None
                if host.gave_up is not None:
                    # Another worker may do it; this one leaves with the next ticket.
                    message = "The model did not load again on the worker that had the job."
                    raise PluginDied("worker_lost", message) from None
                host.ready.wait(0.1)

    def _keep(self, saved: Saved, heartbeat: Heartbeat) -> None:
        job = next(job for job in self._claimed if str(job.fence.job_id) == saved.job)
        checkpoints.keep(job, saved, heartbeat)

    def _seconds_left(self) -> float:
        return self._ends - time.monotonic()

    def _stop(self, heartbeat: Heartbeat) -> Stop | None:
        """What the callers and the database want stopped: all of the call, or some of it."""
        names = {str(job.fence.job_id) for job in self._claimed}
        fenced = {name for name in names if heartbeat.fenced(name)}
        unwanted = fenced | {name for name in names if heartbeat.cancelled(name)}
        if fenced == names:
            return Stop(reason="fenced")
        if unwanted == names:
            return Stop(reason="cancel")
        return Stop(reason="cancel", jobs=frozenset(unwanted)) if unwanted else None

    def _ended(self, job: ClaimedJob, record: Callable[[ClaimedJob], Outcome]) -> Outcome:
        outcome = self._durably(job, record)
        if outcome.state in ("succeeded", "failed", "cancelled"):
            discard(job.fence.job_id)
        return outcome

    def _durably(self, job: ClaimedJob, record: Callable[[ClaimedJob], Outcome]) -> Outcome:
        """Record, and keep trying while the database is away: the work is done and paid for."""
        patience_ends = time.monotonic() + COMMIT_PATIENCE_S
        pause = 0.2
        while True:
            try:
                return record(job)
            except Fenced:
                return self._lost(job)
            except IntegrityError as error:
                # No outage: what the result belongs to is gone, and its tenant with it.
                log.warning("result has no place", extra={"reason": str(error)})
                return self._lost(job)
            except DatabaseError as error:
                connection.close()
                if time.monotonic() > patience_ends:
                    raise
                log.warning("result not recorded yet", extra={"reason": str(error)})
                time.sleep(pause)
                pause = min(5.0, pause * 2)

    def _answered(self, job: ClaimedJob, answer: Answer) -> Outcome:
        if answer.error is not None:
            if answer.error["code"] == "cancelled":
                return self._stopped(job)
            return self._fail(job, _problem(answer.error))
        try:
            stored = {
                file.name: artifacts.store_file(
                    tenant_id=job.tenant_id,
                    path=file.path,
                    name=file.name,
                    media_type=file.media_type,
                )
                for file in answer.files
            }
        except Storage as error:
            return self._fail(job, job_error("storage", str(error)))
        except BodyTooLarge as error:
            return self._fail(job, job_error("output_too_large", str(error)))
        jobs.finish(
            job.fence,
            result=_with_files(answer.result, stored),
            artifacts=[(name, artifact.id) for name, artifact in stored.items()],
            warnings=[*self._warnings[answer.job], *answer.warnings],
            usage=self._usage,
        )
        return self._outcome(job, "succeeded")

    def _failure(self, code: str, message: str) -> Callable[[ClaimedJob], Outcome]:
        error = job_error(code, message)
        return lambda job: self._fail(job, error)

    def _late(self, job: ClaimedJob) -> Outcome:
        """The time of one was up, which ended the call for all of them."""
        if self._began + job.seconds_left <= time.monotonic():
            return self._fail(job, job_error("deadline_exceeded"))
        return self._fail(job, job_error("worker_lost", "Another job of its call ran too long."))

    def _fail(self, job: ClaimedJob, error: Mapping[str, Any]) -> Outcome:
        if error["code"] in OUT_OF_MEMORY | CRASHES and len(self._claimed) > 1:
            error = _among(error, len(self._claimed))
        state = jobs.fail(job.fence, error=error, usage=self._usage)
        shown = "requeued" if state == State.QUEUED else state.value
        return self._outcome(job, shown, str(error["code"]))

    def _stopped(self, job: ClaimedJob) -> Outcome:
        jobs.stopped(job.fence)
        return self._outcome(job, "cancelled")

    def _lost(self, job: ClaimedJob) -> Outcome:
        return self._outcome(job, "lost", "fenced")

    def _outcome(self, job: ClaimedJob, state: str, code: str = "") -> Outcome:
        return Outcome(job=job, state=state, code=code, seconds=time.monotonic() - self._began)


def _problem(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """A plugin's error in the shape a job keeps; its own details stand beside the message."""
    return job_error(str(error["code"]), str(error["message"]), **_details(error))


def _details(error: Mapping[str, Any]) -> dict[str, Any]:
    details = dict(error.get("details") or {})
    if "traceback" in error:
        details["traceback"] = error["traceback"]
    return details


def _among(error: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """The error with the number of jobs in its call: alone, each of them may do."""
    return {**error, "details": {**error.get("details", {}), "batch": batch}}


def _with_files(value: Any, stored: Mapping[str, Stored]) -> Any:
    """The result with every `{"$file": name}` replaced by a reference to its artifact."""
    if isinstance(value, dict):
        if set(value) == {"$file"}:
            return artifacts.reference(stored[value["$file"]], name=value["$file"])
        return {key: _with_files(item, stored) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_files(item, stored) for item in value]
    return value
