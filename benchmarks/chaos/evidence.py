"""All that a run leaves behind: the histories, the tables, the stored files."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.estate import Estate
from benchmarks.chaos.history import Event, read


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A job as it stands at the end. `events`: (kind, data, seconds) in their sequence."""

    id: str
    key: str
    token: str
    state: str
    attempt: int
    gpu_seconds: float
    result: Mapping[str, Any] | None = None
    events: tuple[tuple[str, Mapping[str, Any], float], ...] = ()
    attempts: tuple[AttemptRow, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AttemptRow:
    number: int
    worker: str
    outcome: str
    gpu_seconds: float
    began: float
    ended: float | None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """`files`: SHA-256 of the content by the SHA-256 a stored file is named by. `limits`: how many
    jobs of the one tenant may be in a state at once."""

    history: list[Event]
    jobs: Mapping[str, JobRow]
    files: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


def gather(estate: Estate) -> Evidence:
    events, attempts = defaultdict(list), defaultdict(list)
    for job, kind, data, at in estate.rows(
        "select job_id::text, kind, data, extract(epoch from at)::float8"
        " from jobs_event order by job_id, sequence"
    ):
        events[job].append((kind, data, at))
    for job, *values in estate.rows(
        "select job_id::text, number, worker, outcome, gpu_seconds,"
        " extract(epoch from started_at)::float8, extract(epoch from ended_at)::float8"
        " from jobs_attempt order by job_id, number"
    ):
        names = ("number", "worker", "outcome", "gpu_seconds", "began", "ended")
        attempts[job].append(AttemptRow(**dict(zip(names, values, strict=True))))
    rows = estate.rows(
        "select id::text, idempotency_key, session, state, attempt, gpu_seconds, result"
        " from jobs_job"
    )
    columns = ("id", "key", "token", "state", "attempt", "gpu_seconds", "result")
    jobs = [
        JobRow(
            **dict(zip(columns, row, strict=True)),
            events=tuple(events[row[0]]),
            attempts=tuple(attempts[row[0]]),
        )
        for row in rows
    ]
    ((waiting, running),) = estate.rows("select waiting, running from tenants_quota")
    return Evidence(
        history=read(estate.histories),
        jobs={job.id: job for job in jobs},
        files=hashes(estate.folder / "artifacts"),
        limits={"waiting": waiting, "running": running},
    )


def keep(evidence: Evidence) -> Path:
    """Write everything to a file that outlives the run; gives its path."""
    path = Path(tempfile.mkdtemp(prefix="foldline-chaos-")) / "evidence.json"
    path.write_text(json.dumps(asdict(evidence), indent=1))
    return path


def hashes(folder: Path) -> dict[str, str]:
    """The store names a file by its hash: is it so?"""
    stored = [path for path in folder.glob("*/*/*") if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in stored}
