"""Every request gets an id; requests of the API skip what only pages need."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import cast
from uuid import uuid4

from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django_prometheus.middleware import Metrics

Answer = Callable[[HttpRequest], HttpResponseBase]

API_PREFIX = "/v1/"
_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_ID_KEY = "foldline.request_id"


def request_id(request: HttpRequest) -> str:
    """The id of this request: in the answer's `X-Request-ID`, in problems and in the log."""
    return str(request.META.get(_ID_KEY, ""))


class RequestId:
    """Takes the caller's `X-Request-ID` when it is a plain word, else makes one."""

    def __init__(self, get_response: Answer) -> None:
        self._answer = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        name = given if _ID.fullmatch(given) else uuid4().hex
        request.META[_ID_KEY] = name
        response = self._answer(request)
        response.headers["X-Request-ID"] = name
        return response


class ApiRoad:
    """Leads requests of the API past the middleware that stands after this one.

    Sessions, CSRF, messages and the like belong to the admin's pages and would double what
    a submit costs. What stands before this middleware applies to both roads. The API's
    requests are counted here, in django-prometheus's own metrics.
    """

    def __init__(self, get_response: Answer) -> None:
        self._pages = get_response
        self._api = _without_middleware()
        self._metrics = Metrics.get_instance()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(API_PREFIX):
            return self._pages(request)
        began = time.perf_counter()
        response = self._api(request)
        self._count(request, response, seconds=time.perf_counter() - began)
        return response

    def _count(self, request: HttpRequest, response: HttpResponseBase, *, seconds: float) -> None:
        match = request.resolver_match
        view = (match.view_name if match else "") or "<unnamed view>"
        known = request.method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
        method = request.method if known else "<invalid method>"
        status = str(response.status_code)
        self._metrics.responses_by_status_view_method.labels(status, view, method).inc()
        self._metrics.requests_latency_by_view_method.labels(view, method).observe(seconds)


def _without_middleware() -> Answer:
    """Django's own way from a request to its view and back, with an empty list of middleware."""
    handler = BaseHandler()
    # What load_middleware() would leave behind for `MIDDLEWARE = []`.
    handler._view_middleware = []  # type: ignore[attr-defined]  # private to Django
    handler._template_response_middleware = []  # type: ignore[attr-defined]  # private to Django
    handler._exception_middleware = []  # type: ignore[attr-defined]  # private to Django
    respond = handler._get_response  # type: ignore[attr-defined]  # private to Django
    return cast("Answer", convert_exception_to_response(respond))
