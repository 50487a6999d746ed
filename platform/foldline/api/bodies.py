"""What the API answers with, one function per noun. `api/answers.py` describes the same."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from foldline.api.elsewhere import of_failed, of_model, of_waiting
from foldline.api.waits import poll_after_s, wait_body, with_doubts
from foldline.artifacts.links import token_for
from foldline.artifacts.models import Artifact
from foldline.artifacts.services import Stored
from foldline.catalog.selectors import LiveModel
from foldline.forecasts.prospects import Prospect
from foldline.jobs.admission import Submission, Submitted
from foldline.jobs.blocked import Blocked
from foldline.jobs.models import Job
from foldline.jobs.states import TERMINAL, State

Body = dict[str, Any]


def model_body(model: LiveModel, *, scaling: Body) -> Body:
    """`scaling` as `api.scaling` tells it."""
    here = f"/v1/models/{model.name}"
    return {
        "name": model.name,
        "title": model.title,
        "description": model.description,
        "revision": model.revision,
        "version": model.version,
        "lane": model.lane,
        "family": model.family,
        "licence": model.licence,
        "seed_default": model.seed_default,
        "limits": {"run_timeout_s": model.run_timeout_s},
        "price": {"per_gpu_second": f"{model.price:f}", "currency": settings.CURRENCY},
        "scaling": scaling,
        "alternatives": of_model(model.name),
        "published_at": model.published_at,
        "input_schema": model.input_schema,
        "output_schema": model.output_schema,
        "urls": {"self": here, "submit": f"{here}/jobs"},
    }


def accepted_body(
    model: LiveModel,
    submission: Submission,
    submitted: Submitted,
    *,
    prospect: Prospect,
    blocked: Blocked | None,
    now: datetime,
) -> Body:
    """A job that was accepted a moment ago, without reading it back."""
    others = of_waiting(
        blocked, model=model.name, inputs=submission.inputs, tenant_id=submission.tenant_id
    )
    return {
        "id": submitted.job_id,
        "state": submitted.state,
        "model": model.name,
        "revision": model.revision,
        "attempt": 0,
        "priority": submission.priority,
        "session": submission.session,
        "seed": {"value": submission.seed, "origin": submission.seed_origin},
        "fingerprint": submission.fingerprint,
        "coalesced_with": None,
        "cache": {"hit": False},
        **wait_body(prospect, blocked=blocked, alternatives=others, now=now),
        "progress": None,
        "warnings": with_doubts(submission.warnings, prospect, start_by=submitted.start_by),
        "start_by": submitted.start_by,
        "deadline": submitted.deadline,
        "poll_after_s": poll_after_s(model.lane, prospect, now=now),
        "created_at": submitted.created_at,
        "started_at": None,
        "finished_at": None,
        "usage": {"gpu_seconds": 0.0},
        "cancelling": False,
        "error": None,
        "urls": _job_urls(submitted.job_id),
    }


def job_body(job: Job, *, prospect: Prospect, blocked: Blocked | None, now: datetime) -> Body:
    """A job as it stands. Its error is told once it is final: a retry may still succeed."""
    ended = job.state in TERMINAL
    run = job.attached_to if job.attached_to is not None and not ended else job
    others = of_waiting(
        blocked, model=job.revision.model.name, inputs=job.inputs, tenant_id=job.tenant_id
    )
    return {
        "id": job.id,
        "state": job.state,
        "model": job.revision.model.name,
        "revision": str(job.revision),
        "attempt": job.attempt,
        "priority": job.priority,
        "session": job.session,
        "seed": {"value": job.seed, "origin": job.seed_origin},
        "fingerprint": job.fingerprint,
        "coalesced_with": job.attached_to_id if job.state != State.CANCELLED else None,
        "cache": {"hit": job.cache_of_id is not None},
        **wait_body(prospect, blocked=blocked, alternatives=others, now=now),
        "progress": run.progress,
        "warnings": with_doubts(job.warnings, prospect, start_by=job.start_by),
        "start_by": job.start_by,
        "deadline": job.deadline,
        "poll_after_s": None if ended else poll_after_s(job.revision.lane, prospect, now=now),
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "usage": {"gpu_seconds": job.gpu_seconds},
        "cancelling": job.cancel_requested and not ended,
        "error": error_body(job) if ended and job.error else None,
        "urls": _job_urls(job.id),
    }


def error_body(job: Job) -> Body:
    """An ended job's error as its caller sees it: a model's traceback is for the admin, and what
    else could serve the call is looked up anew."""
    error = job.error or {}
    body = {name: value for name, value in error.items() if name != "details"}
    details = {name: d for name, d in error.get("details", {}).items() if name != "traceback"}
    if details:
        body["details"] = details
    others = of_failed(
        error, model=job.revision.model.name, inputs=job.inputs, tenant_id=job.tenant_id
    )
    if others:
        body["alternatives"] = others
    return body


def result_body(job: Job) -> Body:
    return {
        "job": job.id,
        "state": State(job.state),
        "model": job.revision.model.name,
        "revision": str(job.revision),
        "seed": {"value": job.seed, "origin": job.seed_origin},
        "fingerprint": job.fingerprint,
        "warnings": job.warnings,
        "result": job.result,
    }


def artifact_body(artifact: Artifact | Stored, *, tenant_id: UUID) -> Body:
    here = f"/v1/artifacts/{artifact.id}"
    token = token_for(artifact.id, tenant_id=tenant_id)
    return {
        "id": artifact.id,
        "name": artifact.name,
        "media_type": artifact.media_type,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "urls": {
            "self": here,
            "content": f"{here}/content",
            "download": f"/v1/downloads/{token}",
        },
    }


def _job_urls(job_id: UUID) -> Body:
    here = f"/v1/jobs/{job_id}"
    return {
        "self": here,
        "result": f"{here}/result",
        "events": f"{here}/events",
        "cancel": f"{here}/cancel",
    }
