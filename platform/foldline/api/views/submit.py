"""`POST /v1/models/{model}/jobs`: the one view every microsecond of which is counted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from foldline.api import problems
from foldline.api.answers import Job, Result
from foldline.api.authentication import caller_of
from foldline.api.bodies import accepted_body
from foldline.api.envelope import SubmitBody
from foldline.api.openapi import APPLIED, IDEMPOTENCY_KEY, PREFER, describe
from foldline.api.parsing import json_body
from foldline.api.refusals import refusals
from foldline.api.rendering import json_response
from foldline.api.shown import job_bodies
from foldline.api.submit import accept
from foldline.api.views.base import ApiView, query
from foldline.forecasts.reading import prospect_of_new
from foldline.jobs import selectors
from foldline.tenants.models import ApiKey


class SubmitView(ApiView):
    """Without DRF's request, negotiation and checks, which cost more than all the rest; what
    they do is done by the same functions, called directly."""

    scope = ApiKey.Scope.SUBMIT
    http_method_names = ["post"]

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method != "POST":
            return super().dispatch(request, *args, **kwargs)
        try:
            return self.post(request, **kwargs)
        except Exception as error:
            return problems.answer(error, request)

    @describe(
        "Submit a job",
        {202: Job, 200: Result},
        request=SubmitBody,
        parameters=(IDEMPOTENCY_KEY, PREFER, APPLIED),
        errors=(400, 404, 409, 410, 411, 413, 415, 422),
        detail="Accepted means kept: the job will end in a result or a reason. Repeat a submit"
        " that got no answer with the same `Idempotency-Key`: it never makes a second job. An equal"
        " call that is running or was answered before is not computed again: see `coalesced_with`"
        " and `cache`. With `Prefer: wait=n` the gateway waits for the end, and answers as"
        " `GET …/result` does.",
    )
    def post(self, request: HttpRequest, model: str) -> HttpResponse:
        caller = caller_of(request, scope=self.scope)
        query(request)
        with refusals.watch(caller.tenant_id, request):
            accepted = accept(
                caller=caller, name=model, payload=json_body(request), headers=request.META
            )
        submitted, call = accepted.submitted, accepted.call
        if call is None or submitted.replayed or submitted.coalesced_with or submitted.cache_of:
            job = selectors.job_of(tenant_id=caller.tenant_id, job_id=submitted.job_id)
            (body,) = job_bodies([job])
        else:
            now = datetime.now(UTC)
            made = call.submission
            prospect, blocked = prospect_of_new(made, submitted.ahead_in_flow, now=now)
            body = accepted_body(
                call.model, made, submitted, prospect=prospect, blocked=blocked, now=now
            )
        headers = {"Location": body["urls"]["self"]}
        if body["poll_after_s"] is not None:
            headers["Retry-After"] = str(body["poll_after_s"])
        if submitted.replayed:
            headers["Idempotency-Replayed"] = "true"
        return json_response(body, status=202, headers=headers)
