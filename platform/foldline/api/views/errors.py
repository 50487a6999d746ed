"""Every code that a problem may carry: where a problem's `type` points."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import CataloguedError, ErrorCatalogue
from foldline.api.openapi import describe
from foldline.api.views.base import ApiView
from foldline.errors import CATALOGUE, ErrorCodeNotFound, FoldlineError
from foldline.findings import FINDINGS


class ErrorsView(ApiView):
    authentication_classes = []
    permission_classes = []

    @describe(
        "List the errors a call may meet",
        {200: ErrorCatalogue},
        public=True,
        detail="`errors`: the codes of problems and of failed jobs. `findings`: the codes in a"
        " problem's own `errors`; a model may use further ones.",
    )
    def get(self, _request: Request) -> Response:
        findings = [{"code": code, "description": told} for code, told in sorted(FINDINGS.items())]
        return Response({"errors": [error_body(kind) for kind in kinds()], "findings": findings})


class ErrorView(ApiView):
    authentication_classes = []
    permission_classes = []

    @describe(
        "Show what an error means",
        {200: CataloguedError},
        public=True,
        errors=(404,),
        detail="A problem's `type` points here. A browser gets a page.",
    )
    def get(self, request: Request, code: str) -> Response | HttpResponse:
        kind = CATALOGUE.get(code)
        if kind is None:
            raise ErrorCodeNotFound
        inner = request._request
        if inner.get_preferred_type(["application/json", "text/html"]) == "text/html":
            return render(inner, "error.html", {"error": error_body(kind)})
        return Response(error_body(kind))


def kinds() -> list[type[FoldlineError]]:
    """The whole catalogue, by code."""
    return [kind for _, kind in sorted(CATALOGUE.items())]


def error_body(kind: type[FoldlineError]) -> dict[str, Any]:
    return {
        "type": f"/v1/errors/{kind.code}",
        "code": kind.code,
        "title": kind.title,
        "status": kind.status,
        "fault": kind.fault,
        "retryable": kind.retryable,
        "suggested_action": kind.suggested_action,
        "names_alternatives": kind.elsewhere,
        "description": kind.description(),
    }
