"""The caller's jobs: list, show, cancel, fetch the result."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from uuid import UUID

from django.http import HttpResponse, HttpResponseNotModified
from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api import problems
from foldline.api.answers import Job, JobList, Result
from foldline.api.bodies import error_body, result_body
from foldline.api.conditions import matches, wait_s
from foldline.api.middleware import request_id
from foldline.api.openapi import IF_NONE_MATCH, JOB_FILTERS, UNCHANGED, WAIT, describe
from foldline.api.shown import job_bodies
from foldline.api.views.base import ApiView, caller, identifier, query, wrong_parameter
from foldline.api.waits import poll_after_s
from foldline.errors import JobNotFinished, JobNotFound
from foldline.forecasts.reading import prospect_of
from foldline.jobs import selectors, services
from foldline.jobs.marks import mark_of
from foldline.jobs.models import Job as JobRow
from foldline.jobs.states import State
from foldline.tenants.models import ApiKey

MOST_JOBS = 100
USUAL_JOBS = 50


class JobsView(ApiView):
    @describe("List your jobs, newest first", {200: JobList}, parameters=JOB_FILTERS, errors=(400,))
    def get(self, request: Request) -> Response:
        asked = query(request, "session", "state", "model", "cursor", "limit")
        limit = _limit(asked.get("limit"))
        found = selectors.jobs_of(
            tenant_id=caller(request).tenant_id,
            session=asked.get("session"),
            state=_state(asked.get("state")),
            model=asked.get("model"),
            before=_before(asked.get("cursor")),
            limit=limit + 1,
        )
        page = found[:limit]
        jobs = job_bodies(page)
        more = len(found) > limit
        return Response({"jobs": jobs, "next_cursor": _cursor(page[-1].id) if more else None})


class JobView(ApiView):
    @describe(
        "Show a job",
        {200: Job, 304: UNCHANGED},
        parameters=(WAIT, IF_NONE_MATCH),
        errors=(404,),
        detail="With `wait` the answer comes once the job has changed (state, attempt, progress,"
        " `cancelling`, priority, deadlines, usage, the run it is attached to), or when the time is"
        " over; of a job that has ended, at once. The `ETag` stands for just that: place and times"
        " move without changing it.",
    )
    def get(self, request: Request, job: str) -> Response | HttpResponse:
        wait_s(query(request, "wait").get("wait"))  # the door has waited
        found = _job(request, job)
        tag = mark_of(found).tag
        if matches(request.META.get("HTTP_IF_NONE_MATCH"), tag):
            now = datetime.now(UTC)
            wait = _poll_after_s(found, now=now) if found.open else None
            return HttpResponseNotModified(headers=_headers(tag, wait))
        return _shown(found, tag)


class CancelView(ApiView):
    scope = ApiKey.Scope.SUBMIT

    @describe(
        "Cancel a job",
        {200: Job},
        errors=(404,),
        detail="Idempotent. `cancelling` stays true until the worker has stopped.",
    )
    def post(self, request: Request, job: str) -> Response:
        tenant_id = caller(request).tenant_id
        services.cancel(tenant_id=tenant_id, job_id=identifier(job, missing=JobNotFound))
        found = _job(request, job)
        return _shown(found, mark_of(found).tag)


class ResultView(ApiView):
    @describe(
        "Fetch a job's result",
        {200: Result},
        errors=(404, 409, 422),
        detail="409 `job_not_finished` until the job has ended; for a job that ended without a"
        " result, the problem that says why.",
    )
    def get(self, request: Request, job: str) -> Response | HttpResponse:
        found = _job(request, job)
        if found.open:
            raise JobNotFinished(retry_after_s=_poll_after_s(found, now=datetime.now(UTC)))
        if found.state == State.SUCCEEDED:
            return Response(result_body(found))
        told = {**error_body(found), "request_id": request_id(request._request)}
        return problems.respond(told)


def _job(request: Request, job: str) -> JobRow:
    job_id = identifier(job, missing=JobNotFound)
    return selectors.job_of(tenant_id=caller(request).tenant_id, job_id=job_id)


def _shown(job: JobRow, tag: str) -> Response:
    (body,) = job_bodies([job])
    return Response(body, headers=_headers(tag, body["poll_after_s"]))


def _headers(tag: str, wait_s: int | None) -> dict[str, str]:
    """What every answer about a job carries. Who keeps it must ask whether it still holds."""
    usual = {"ETag": tag, "Cache-Control": "private, no-cache"}
    return usual if wait_s is None else {**usual, "Retry-After": str(wait_s)}


def _poll_after_s(job: JobRow, *, now: datetime) -> int:
    return poll_after_s(job.revision.lane, prospect_of(job, now=now), now=now)


def _limit(text: str | None) -> int:
    if text is None:
        return USUAL_JOBS
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:4]) <= MOST_JOBS:
        raise wrong_parameter("limit", "invalid", got=text, expected=f"1 to {MOST_JOBS}")
    return int(text)


def _state(text: str | None) -> str | None:
    if text is not None and text not in list(State):
        raise wrong_parameter("state", "not_allowed", got=text, expected=", ".join(State))
    return text


def _cursor(job_id: UUID) -> str:
    return urlsafe_b64encode(job_id.bytes).decode().rstrip("=")


def _before(cursor: str | None) -> UUID | None:
    if cursor is None:
        return None
    try:
        job_id = UUID(bytes=urlsafe_b64decode(f"{cursor}=="))
    except ValueError:
        job_id = None
    if job_id is None or _cursor(job_id) != cursor:  # the decoder passes over what is no letter
        raise wrong_parameter(
            "cursor", "invalid", got=cursor, expected="`next_cursor` of the page before"
        )
    return job_id
