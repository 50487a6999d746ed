"""`POST /v1/models/{model}/estimate`: what a submit would come to."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import Estimate
from foldline.api.envelope import SubmitBody
from foldline.api.estimate import estimate_body
from foldline.api.middleware import request_id
from foldline.api.openapi import describe
from foldline.api.parsing import json_body
from foldline.api.refusals import refusals
from foldline.api.submit import call_of
from foldline.api.views.base import ApiView, caller
from foldline.tenants.models import ApiKey


class EstimateView(ApiView):
    scope = ApiKey.Scope.SUBMIT
    http_method_names = ["post"]

    @describe(
        "Estimate a call without submitting it",
        {200: Estimate},
        request=SubmitBody,
        errors=(400, 404, 410, 411, 413, 415, 422, 429),
        detail="The same body and the same checks as a submit; nothing is queued and nothing"
        " written. Tells what the inputs are understood as, whether a quota would refuse the call"
        " now, what it would use and cost, and when it would start and end.",
    )
    def post(self, request: Request, model: str) -> Response:
        asking, inner = caller(request), request._request
        with refusals.watch(asking.tenant_id, inner):
            call = call_of(caller=asking, name=model, payload=json_body(inner), headers={})
        return Response(estimate_body(call.model, call.submission, request_id=request_id(inner)))
