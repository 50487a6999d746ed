"""Many calls in one request: submit, show, cancel."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseNotModified
from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import Batch
from foldline.api.batch_bodies import accepted_batch_body, batch_body, batch_tag
from foldline.api.batches import BatchBody, items_of, read_batch
from foldline.api.bodies import Body
from foldline.api.conditions import matches, wait_s
from foldline.api.elsewhere import name_alternatives
from foldline.api.envelope import idempotency_key
from foldline.api.middleware import request_id
from foldline.api.openapi import (
    APPLIED,
    BATCH_KEY,
    BATCH_PREFER,
    BATCH_WAIT,
    IF_NONE_MATCH,
    UNCHANGED,
    describe,
)
from foldline.api.parsing import json_body
from foldline.api.refusals import refusals
from foldline.api.rendering import json_response
from foldline.api.submit import Call
from foldline.api.views.base import ApiView, caller, identifier, wrong_parameter
from foldline.catalog.fingerprint import digest
from foldline.errors import BatchNotFound, FoldlineError
from foldline.jobs import batches, selectors
from foldline.jobs.admission import Submission
from foldline.jobs.models import Batch as BatchRow
from foldline.tenants.models import ApiKey


class BatchesView(ApiView):
    scope = ApiKey.Scope.SUBMIT
    http_method_names = ["post"]

    @describe(
        "Submit many jobs",
        {202: Batch, 200: Batch},
        request=BatchBody,
        parameters=(BATCH_KEY, BATCH_PREFER, APPLIED),
        errors=(400, 411, 413, 415, 422),
        detail="Up to 100 calls of any models. Each is accepted or refused as if it came alone; a"
        " refused one has its problem in `error`, whose pointers lead into this body, and does not"
        " touch the rest. When a quota has room for none of them, all are refused and nothing is"
        " kept. Repeat a request that got no answer with the same `Idempotency-Key`: it never"
        " makes a second job. With `Prefer: wait=n` the gateway waits for the ends of all jobs, and"
        " answers as `GET …/batches/{id}` does.",
    )
    def post(self, request: Request) -> HttpResponse:
        raw, tenant_id = request._request, caller(request).tenant_id
        with refusals.watch(tenant_id, raw):
            key = idempotency_key(raw.META)
            payload = json_body(raw)
            body = read_batch(payload)
            payload_digest = digest(payload) if key else ""
            accepted = batches.replay(
                tenant_id=tenant_id, idempotency_key=key, payload_digest=payload_digest
            )
            items = [] if accepted else items_of(body, caller=caller(request), headers=raw.META)
            accepted = accepted or batches.submit(
                batches.BatchSubmission(
                    tenant_id=tenant_id,
                    items=[item.submission if isinstance(item, Call) else item for item in items],
                    session=body.session,
                    idempotency_key=key,
                    payload_digest=payload_digest,
                    request_id=request_id(raw),
                    advise=_name_alternatives,
                )
            )
        if accepted.replayed:
            told = batch_body(accepted.batch, request_id=request_id(raw))
        else:
            told = accepted_batch_body(accepted, items, request_id=request_id(raw))
        replayed = {"Idempotency-Replayed": "true"} if accepted.replayed else {}
        headers = {"Location": told["urls"]["self"], **_again(told), **replayed}
        return json_response(told, status=202, headers=headers)


class BatchView(ApiView):
    parameters = ("wait", "timeout_s")

    @describe(
        "Show a batch",
        {200: Batch, 304: UNCHANGED},
        parameters=(*BATCH_WAIT, IF_NONE_MATCH),
        errors=(404,),
        detail="With `wait` the answer comes once any or all of the jobs that are open now have"
        " ended, or when the time is over. The `ETag` stands for what those of the jobs stand for.",
    )
    def get(self, request: Request, batch: str) -> Response | HttpResponse:
        _check_wait(self.asked)  # the door has waited
        found = selectors.batch_of(
            tenant_id=caller(request).tenant_id, batch_id=identifier(batch, missing=BatchNotFound)
        )
        answer = _shown(found, request)
        if matches(request.META.get("HTTP_IF_NONE_MATCH"), answer.headers["ETag"]):
            return HttpResponseNotModified(headers=dict(answer.headers))
        return answer


class CancelBatchView(ApiView):
    scope = ApiKey.Scope.SUBMIT
    http_method_names = ["post"]

    @describe(
        "Cancel all jobs of a batch",
        {200: Batch},
        errors=(404,),
        detail="Idempotent. Jobs that have ended stay as they are; a job that another batch or"
        " request named with the same idempotency key is the same job, and ends.",
    )
    def post(self, request: Request, batch: str) -> Response:
        cancelled = batches.cancel(
            tenant_id=caller(request).tenant_id, batch_id=identifier(batch, missing=BatchNotFound)
        )
        return _shown(cancelled, request)


def _shown(batch: BatchRow, request: Request) -> Response:
    # In this order: what changes in between is told again, and not kept back.
    tag = batch_tag(batch)
    body = batch_body(batch, request_id=request_id(request._request))
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", **_again(body)}
    return Response(body, headers=headers)


def _name_alternatives(call: Submission, refusal: FoldlineError) -> None:
    name_alternatives(refusal, model=call.model, inputs=call.inputs, tenant_id=call.tenant_id)


def _again(body: Body) -> dict[str, str]:
    wait = body["poll_after_s"]
    return {} if wait is None else {"Retry-After": str(wait)}


def _check_wait(asked: dict[str, str]) -> None:
    mode, seconds = asked.get("wait"), asked.get("timeout_s")
    if mode not in (None, "any", "all"):
        raise wrong_parameter("wait", "not_allowed", got=mode, expected="any or all")
    if seconds is not None and mode is None:
        raise wrong_parameter("timeout_s", "invalid", got=seconds, expected="only with `wait`")
    wait_s(seconds, name="timeout_s")
