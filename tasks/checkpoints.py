"""Checkpoints between a job's attempts and the state folder, from the worker's side."""

from __future__ import annotations

import logging
from pathlib import Path

from foldline.jobs import checkpoints
from foldline.jobs.checkpoints import Ignored, Place, Refused, Subject
from foldline.jobs.claims import ClaimedJob
from model_plugins.frames import RESUME_FILE
from tasks.heartbeat import Heartbeat
from tasks.messages import Saved

log = logging.getLogger(__name__)


def subject_of(job: ClaimedJob) -> Subject:
    """What a checkpoint must be of to be used by this claim."""
    return Subject(
        job=str(job.fence.job_id),
        revision=job.revision_digest,
        fingerprint=job.fingerprint,
        # Other inputs, in effect: the smaller way has steps of its own.
        degraded=job.ran_out is not None,
    )


def lay_out(job: ClaimedJob, folder: Path) -> list[dict[str, str]]:
    """Copy what the attempt before saved into `folder`; warnings when it cannot be used.

    The plugin gets a copy of this one job's data, never the folder where all of it lies.
    """
    at_least = Place(*job.saved) if job.saved else None
    try:
        data = checkpoints.latest(subject_of(job), at_least=at_least)
    except Ignored as ignored:
        log.warning(
            "checkpoint ignored",
            extra={"job": str(job.fence.job_id), "reason": ignored.reason, "what": str(ignored)},
        )
        message = f"{ignored.reason}: {ignored} The job was computed from the beginning."
        return [{"code": "checkpoint_ignored", "message": message}]
    if data is not None:
        (folder / RESUME_FILE).write_bytes(data)
    return []


def keep(job: ClaimedJob, saved: Saved, heartbeat: Heartbeat) -> None:
    """Keep what a plugin has just saved. A failure costs the checkpoint, never the job."""
    place = Place(job.fence.attempt, saved.step)
    try:
        checkpoints.keep(subject_of(job), place=place, source=saved.path)
    except (Refused, OSError) as error:
        log.warning("checkpoint not kept", extra={"job": saved.job, "reason": str(error)})
    else:
        heartbeat.saved(saved.job, saved.step)
