"""Every error leaves as `application/problem+json`, whatever raised it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from django.http.response import HttpResponseBase
from django.views import defaults
from rest_framework import exceptions

from foldline.api.middleware import request_id
from foldline.api.rendering import json_response
from foldline.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    FoldlineError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    UnsupportedMediaType,
    problem,
)

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_DATABASE_S = 5

_KNOWN: tuple[tuple[type[Exception], type[FoldlineError]], ...] = (
    (Http404, NotFound),
    (exceptions.NotFound, NotFound),
    (exceptions.MethodNotAllowed, MethodNotAllowed),
    (exceptions.UnsupportedMediaType, UnsupportedMediaType),
    (RequestDataTooBig, BodyTooLarge),
    (UnreadablePostError, InvalidRequest),
    (SuspiciousOperation, InvalidRequest),
)


def as_error(exception: Exception) -> FoldlineError:
    """The entry of the catalogue that an exception stands for; InternalError when none does."""
    if isinstance(exception, FoldlineError):
        return exception
    if isinstance(exception, OperationalError | InterfaceError):
        return DatabaseUnavailable(retry_after_s=RETRY_DATABASE_S)
    for kind, error in _KNOWN:
        if isinstance(exception, kind):
            return error()
    return InternalError()


def answer(
    exception: Exception, request: HttpRequest, *, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """The problem that tells a caller about an exception; one of ours is logged."""
    error = as_error(exception)
    if error.status >= 500:
        log.error(
            "request failed: %s",
            error.code,
            exc_info=exception,
            extra={"request_id": request_id(request), "path": request.path},
        )
    return respond(problem(error, request_id(request)), headers=headers)


def respond(body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """A problem's body as an answer, with the headers it calls for."""
    told = dict(headers or {})
    if body.get("retry_after_s") is not None:
        told["Retry-After"] = str(body["retry_after_s"])
    if body["status"] == 401:
        told["WWW-Authenticate"] = "Bearer"
    response = json_response(body, status=body["status"], headers=told, content_type=MEDIA_TYPE)
    # Django would log each 4xx as a warning, its URL included: an agent's polling is no news.
    response._has_been_logged = True  # type: ignore[attr-defined]  # read by django.utils.log
    return response


def exception_handler(exception: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """What DRF's views do with an exception."""
    headers = None
    if isinstance(exception, exceptions.MethodNotAllowed):
        headers = {"Allow": ", ".join(context["view"].allowed_methods)}
    return answer(exception, context["request"]._request, headers=headers)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if _is_page(request):
        return defaults.bad_request(request, exception)
    return answer(InvalidRequest(), request)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if _is_page(request):
        return defaults.page_not_found(request, exception)
    return answer(NotFound(), request)


def server_error(request: HttpRequest) -> HttpResponseBase:
    if _is_page(request):
        return defaults.server_error(request)
    # Django has logged the exception.
    return respond(problem(InternalError(), request_id(request)))


def _is_page(request: HttpRequest) -> bool:
    return request.path_info.startswith("/admin/")
