"""The caller's jobs: list, show, cancel, fetch the result."""

from __future__ import annotations

import re
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
from foldline.api.openapi import (
    ETAG,
    IF_NONE_MATCH,
    JOB_FILTERS,
    JOB_IDS,
    UNCHANGED,
    WAIT,
    describe,
)
from foldline.api.pages import next_cursor, page_size, page_start
from foldline.api.shown import job_bodies
from foldline.api.views.base import ApiView, caller, identifier, wrong_parameter
from foldline.api.waits import poll_after_s
from foldline.errors import JobNotFinished, JobNotFound
from foldline.forecasts.reading import prospect_of
from foldline.jobs import selectors, services
from foldline.jobs.marks import mark_of
from foldline.jobs.models import Job as JobRow
from foldline.jobs.states import State
from foldline.tenants.models import ApiKey


class JobsView(ApiView):
    parameters = ("ids", "session", "state", "model", "cursor", "limit")

    @describe("List your jobs, newest first", {200: JobList}, parameters=JOB_FILTERS, errors=(400,))
    def get(self, request: Request) -> Response:
        asked = self.asked
        limit = page_size(asked)
        found = selectors.jobs_of(
            tenant_id=caller(request).tenant_id,
            job_ids=_ids(asked.get("ids")),
            session=asked.get("session"),
            state=_state(asked.get("state")),
            model=asked.get("model"),
            before=page_start(asked),
            limit=limit + 1,
        )
        return Response(
            {"jobs": job_bodies(found[:limit]), "next_cursor": next_cursor(found, limit=limit)}
        )


class JobView(ApiView):
    parameters = ("wait",)

    @describe(
        "Show a job",
        {200: Job, 304: UNCHANGED},
        parameters=(WAIT, IF_NONE_MATCH, ETAG),
        errors=(404,),
        detail="With `wait` the answer comes once the job has changed (state, attempt, progress,"
        " `cancelling`, priority, deadlines, usage, the run it is attached to), or when the time is"
        " over; of a job that has ended, at once. The `ETag` stands for just that: place and times"
        " move without changing it.",
    )
    def get(self, request: Request, job: str) -> Response | HttpResponse:
        wait_s(self.asked.get("wait"))  # the door has waited
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


def _ids(text: str | None) -> list[UUID] | None:
    if text is None:
        return None
    if not re.fullmatch(JOB_IDS, text):
        raise wrong_parameter("ids", "invalid", got=text, expected="1 to 100 ids, with commas")
    return [UUID(each) for each in text.split(",")]


def _state(text: str | None) -> str | None:
    if text is not None and text not in list(State):
        raise wrong_parameter("state", "not_allowed", got=text, expected=", ".join(State))
    return text
