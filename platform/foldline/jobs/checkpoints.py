"""What attempts saved for the next attempt of their job: one file a job, in the state folder.

The worker puts a plugin's data here together with what it belongs to, and looks at both
again before it hands the data to the next attempt: a file may be cut short by a crash, come
back from a backup, or be left by an attempt that had lost its job. Nothing here is promised
to be there: without it a job starts from the beginning.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from foldline.jobs.models import Job
from foldline.jobs.states import OPEN

MAX_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 4096
VERSION = 1


class Ignored(Exception):
    """A checkpoint that must not be used: `reason` is truncated, foreign or stale."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Refused(Exception):
    """Something that a plugin put down is no checkpoint, or not the newest one."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a checkpoint is of. Another subject's is of no use, and may be another caller's."""

    job: str
    revision: str
    fingerprint: str
    degraded: bool


@dataclass(frozen=True, order=True)
class Place:
    """How far a job had come: the steps of a later attempt count more than those before."""

    attempt: int
    step: int


def keep(subject: Subject, *, place: Place, source: Path) -> None:
    """Make the file at `source` the job's checkpoint; durable on return.

    Raises Refused, and OSError when it cannot be written.
    """
    data = _taken(source)
    target = _file(subject.job)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    there = _place_of(target, subject)
    if there is not None and there >= place:
        raise Refused(f"{place} after {there}")
    header = {
        "v": VERSION,
        **asdict(subject),
        **asdict(place),
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    partial = target.with_name(f"partial-{place.attempt}")
    with partial.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n")
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, target)
    _sync(target.parent)


def latest(subject: Subject, *, at_least: Place | None) -> bytes | None:
    """The job's checkpoint; None when there is none. Raises Ignored, with the reason.

    `at_least`: the last place the database knows of, wherever that was saved.
    """
    try:
        with _file(subject.job).open("rb") as file:
            header = _header(file.readline(MAX_HEADER_BYTES))
            data = file.read(MAX_BYTES + 1)
    except OSError:
        return None
    if header is None:
        raise Ignored("truncated", "Its beginning cannot be read.")
    if header["size"] != len(data) or header["sha256"] != hashlib.sha256(data).hexdigest():
        raise Ignored("truncated", f"{len(data)} of {header['size']} bytes are there, or wrong.")
    if not _belongs(header, subject):
        raise Ignored("foreign", "It is of another job, or of another way of running this one.")
    place = Place(header["attempt"], header["step"])
    if at_least is not None and place < at_least:
        raise Ignored("stale", f"{place} was kept, but {at_least} had been saved later.")
    return data


def discard(job_id: UUID | str) -> None:
    """The job has ended, or begins anew: nobody resumes it."""
    shutil.rmtree(_file(str(job_id)).parent, ignore_errors=True)


def discard_ended() -> int:
    """Remove what is kept for jobs that have ended elsewhere; gives how many."""
    try:
        kept = {UUID(name) for name in os.listdir(_root())}
    except OSError:
        return 0
    if not kept:
        return 0
    open_jobs = Job.objects.filter(id__in=kept, state__in=OPEN).values_list("id", flat=True)
    ended = kept - set(open_jobs)
    for job_id in ended:
        discard(job_id)
    return len(ended)


def _root() -> Path:
    return Path(settings.HOME) / "checkpoints"


def _file(job: str) -> Path:
    return _root() / str(UUID(job)) / "latest"


def _taken(source: Path) -> bytes:
    """The bytes of a plugin's file. It still runs: the path may have become anything."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(f"{source.name} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size > MAX_BYTES:
            raise Refused(f"{source.name} is a link, no regular file, or too large")
        data = file.read(MAX_BYTES)
    source.unlink(missing_ok=True)
    return data


def _place_of(target: Path, subject: Subject) -> Place | None:
    try:
        with target.open("rb") as file:
            header = _header(file.readline(MAX_HEADER_BYTES))
    except OSError:
        return None
    if header is None or not _belongs(header, subject):
        return None
    return Place(header["attempt"], header["step"])


def _header(line: bytes) -> dict[str, Any] | None:
    try:
        header = json.loads(line)
        complete = header["v"] == VERSION and {"attempt", "step", "size", "sha256"} <= set(header)
    except (ValueError, TypeError, KeyError):
        return None
    return dict(header) if complete else None


def _belongs(header: dict[str, Any], subject: Subject) -> bool:
    return all(header.get(name) == value for name, value in asdict(subject).items())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
