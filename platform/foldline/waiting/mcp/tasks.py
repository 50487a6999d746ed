"""A job as a task of the extension `io.modelcontextprotocol/tasks`. The task's id is the job's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from foldline.waiting.mcp.words import standing

Body = dict[str, Any]

TASKS = "io.modelcontextprotocol/tasks"

# A failed job is a completed task: `failed` is for faults of the protocol.
_STATUS = {
    "queued": "working",
    "running": "working",
    "succeeded": "completed",
    "failed": "completed",
    "cancelled": "cancelled",
    "expired": "cancelled",
}
_DAY_MS = 24 * 3600 * 1000


def task(job: Mapping[str, Any]) -> Body:
    """The members of a task. What the protocol has no member for stands under our own name."""
    progress = job["progress"] or {}
    told = {
        "taskId": job["id"],
        "status": _STATUS[job["state"]],
        "statusMessage": standing(job),
        "createdAt": job["created_at"],
        "lastUpdatedAt": job["finished_at"]
        or progress.get("updated_at")
        or job["started_at"]
        or job["created_at"],
        "ttlMs": int(settings.KEEP_JOBS_DAYS * _DAY_MS),
    }
    if job["poll_after_s"] is not None:
        told["pollIntervalMs"] = job["poll_after_s"] * 1000
        told["_meta"] = {
            f"foldline/{name}": job[name] for name in ("queue", "eta", "cold_start", "progress")
        }
    return told
