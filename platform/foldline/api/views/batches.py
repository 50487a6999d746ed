"""Many calls in one request: submit, show, cancel."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import Batch
from foldline.api.batch_bodies import accepted_batch_body, batch_body
from foldline.api.batches import BatchBody, Call, calls_of, read_batch
from foldline.api.bodies import Body
from foldline.api.envelope import idempotency_key
from foldline.api.middleware import request_id
from foldline.api.openapi import BATCH_KEY, BATCH_WAIT, describe
from foldline.api.parsing import json_body
from foldline.api.refusals import refusals
from foldline.api.rendering import json_response
from foldline.api.views.base import ApiView, caller, identifier, query, wrong_parameter
from foldline.catalog.fingerprint import digest
from foldline.errors import BatchNotFound
from foldline.jobs import batches, selectors
from foldline.tenants.models import ApiKey

MOST_WAIT_S = 50


class BatchesView(ApiView):
    scope = ApiKey.Scope.SUBMIT
    http_method_names = ["post"]

    @describe(
        "Submit many jobs",
        {202: Batch},
        request=BatchBody,
        parameters=(BATCH_KEY,),
        errors=(400, 411, 413, 415, 422),
        detail="Up to 100 calls of any models. Each is accepted or refused as if it came alone; a"
        " refused one has its problem in `error`, whose pointers lead into this body, and does not"
        " touch the rest. When a quota has room for none of them, all are refused and nothing is"
        " kept. Repeat a request that got no answer with the same `Idempotency-Key`: it never"
        " makes a second job.",
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
            calls = [] if accepted else calls_of(body, caller=caller(request), headers=raw.META)
            accepted = accepted or batches.submit(
                batches.BatchSubmission(
                    tenant_id=tenant_id,
                    items=[call.submission if isinstance(call, Call) else call for call in calls],
                    session=body.session,
                    idempotency_key=key,
                    payload_digest=payload_digest,
                    request_id=request_id(raw),
                )
            )
        if accepted.replayed:
            told = batch_body(accepted.batch, request_id=request_id(raw))
        else:
            told = accepted_batch_body(accepted, calls, request_id=request_id(raw))
        replayed = {"Idempotency-Replayed": "true"} if accepted.replayed else {}
        headers = {"Location": told["urls"]["self"], **_again(told), **replayed}
        return json_response(told, status=202, headers=headers)


class BatchView(ApiView):
    @describe("Show a batch", {200: Batch}, parameters=BATCH_WAIT, errors=(404,))
    def get(self, request: Request, batch: str) -> Response:
        _check_wait(query(request, "wait", "timeout_s"))
        found = selectors.batch_of(
            tenant_id=caller(request).tenant_id, batch_id=identifier(batch, missing=BatchNotFound)
        )
        return _shown(batch_body(found, request_id=request_id(request._request)))


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
        return _shown(batch_body(cancelled, request_id=request_id(request._request)))


def _shown(body: Body) -> Response:
    return Response(body, headers=_again(body))


def _again(body: Body) -> dict[str, str]:
    wait = body["poll_after_s"]
    return {} if wait is None else {"Retry-After": str(wait)}


def _check_wait(asked: dict[str, str]) -> None:
    """The waiting itself is done in front; here the parameters need only be right."""
    mode, seconds = asked.get("wait"), asked.get("timeout_s")
    if mode not in (None, "any", "all"):
        raise wrong_parameter("wait", "not_allowed", got=mode, expected="any or all")
    if seconds is None:
        return
    if mode is None:
        raise wrong_parameter("timeout_s", "invalid", got=seconds, expected="only with `wait`")
    if not seconds.isascii() or not seconds.isdigit() or int(seconds[:3]) > MOST_WAIT_S:
        raise wrong_parameter("timeout_s", "invalid", got=seconds, expected=f"0 to {MOST_WAIT_S}")
