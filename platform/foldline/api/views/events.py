"""`GET /v1/jobs/{job}/events`: what happened to a job so far. The gateway's door keeps the stream
open and goes on from there."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request

from foldline.api.openapi import LAST_EVENT_ID, describe
from foldline.api.views.base import ApiView, caller, identifier
from foldline.errors import InvalidRequest, JobNotFound, finding
from foldline.jobs.selectors import require_job
from foldline.notify.stream import MEDIA_TYPE, RETRY, START, Cursor, Telling, tellings


class EventsView(ApiView):
    @describe(
        "Watch a job",
        {(200, MEDIA_TYPE): OpenApiTypes.STR},
        parameters=(LAST_EVENT_ID,),
        errors=(404,),
        detail="Server-sent events until the job has ended. `state`: each change of state, with its"
        " number as `id`. `progress`: how far it is. `position`: where it stands and when it will"
        " start and end, while it waits. `error`: a problem; the stream ends. A comment every 15 s"
        " keeps the connection alive.",
    )
    def get(self, request: Request, job: str) -> HttpResponse:
        job_id = identifier(job, missing=JobNotFound)
        require_job(tenant_id=caller(request).tenant_id, job_id=job_id)
        since = _cursor(request.META.get("HTTP_LAST_EVENT_ID", ""))
        told: Telling | None = tellings([(job_id, since)]).get((job_id, since))
        if told is None:
            raise JobNotFound
        if since.sequence > told.last:
            raise _wrong(str(since))
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return HttpResponse(RETRY + told.text, content_type=MEDIA_TYPE, headers=headers)


def _cursor(text: str) -> Cursor:
    """Where to go on; an empty `Last-Event-ID` is as good as none."""
    cursor = Cursor.read(text) if text else START
    if cursor is None:
        raise _wrong(text)
    return cursor


def _wrong(text: str) -> InvalidRequest:
    expected = "Last-Event-ID as the `id` of an event of this job"
    return InvalidRequest(errors=[finding("", "invalid", got=text, expected=expected)])
