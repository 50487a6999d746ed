"""What a message says: a thin body, less than 20 kB. Who wants the result fetches it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from foldline.jobs.models import Job
from foldline.jobs.states import TERMINAL

PING = "ping"
EVENTS = tuple(sorted(f"job.{state}" for state in TERMINAL))
"""The types an endpoint may choose from."""


def type_of(job: Job) -> str:
    return f"job.{job.state}"


def job_ended(job: Job) -> str:
    """The body that tells the end of a job; its model must be loaded."""
    here = f"{settings.BASE_URL}/v1/jobs/{job.id}"
    error = job.error or {}
    return _body(
        type_of(job),
        at=job.finished_at or job.created_at,
        data={
            "id": str(job.id),
            "model": job.model.name,
            "state": str(job.state),
            "session": job.session,
            "error": error.get("code"),
            "redrive_of": str(job.redrive_of_id) if job.redrive_of_id else None,
            "urls": {"self": here, "result": f"{here}/result"},
        },
    )


def ping(*, at: datetime) -> str:
    """The body of a test."""
    return _body(PING, at=at, data={})


def _body(kind: str, *, at: datetime, data: dict[str, Any]) -> str:
    stamp = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"type": kind, "timestamp": stamp, "data": data}, separators=(",", ":"))
