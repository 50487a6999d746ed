"""Every error leaves as `application/problem+json`, whatever raised it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from django import db
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views import defaults
from rest_framework import exceptions

from foldline.api.middleware import API_PREFIX, request_id
from foldline.api.outage import RETRY_AFTER_S, outage
from foldline.api.rendering import json_response
from foldline.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    FoldlineError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    ModelUnavailable,
    NotFound,
    QuotaExceeded,
    UnsupportedMediaType,
    problem,
)

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
READ_ONLY = "25006"
_SLASH_AT_END = "There is nothing at this address: none of the API has a slash at its end."

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
    if isinstance(exception, db.Error) and _is_away(exception):
        return DatabaseUnavailable(retry_after_s=RETRY_AFTER_S)
    for kind, error in _KNOWN:
        if isinstance(exception, kind):
            return error()
    return InternalError()


def _is_away(error: db.Error) -> bool:
    """Whether the database, and not what was asked of it, is in trouble."""
    if isinstance(error, db.InternalError):  # a server that has become a replica
        return getattr(error.__cause__, "sqlstate", "") == READ_ONLY
    return isinstance(error, db.OperationalError | db.InterfaceError)


def answer(
    exception: Exception, request: HttpRequest, *, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """The problem that tells a caller about an exception; one of ours is logged."""
    error = as_error(exception)
    if isinstance(error, DatabaseUnavailable):
        _note_outage(exception, request)
    elif error.status >= 500 and not isinstance(error, ModelUnavailable):
        log.error(
            "request failed: %s",
            error.code,
            exc_info=exception,
            extra={"request_id": request_id(request), "path": request.path},
        )
    told = {**_rate_limit(error), **(headers or {})}
    return respond(problem(error, request_id(request)), headers=told)


def _rate_limit(error: FoldlineError) -> Mapping[str, str]:
    """The `RateLimit` fields (draft-ietf-httpapi-ratelimit-headers, 10 and 11) of a limit that
    refuses for a while. Names and units are quoted strings, the numbers integers."""
    if not isinstance(error, QuotaExceeded) or error.policy is None:
        return {}
    policy = error.policy
    offered, left = f'"{policy.name}";q={policy.quota}', f'"{policy.name}";r={policy.left}'
    if policy.unit:
        offered += f';qu="{policy.unit}"'
    if policy.window_s is not None:
        offered += f";w={policy.window_s}"
        left += f";t={error.retry_after_s or 0}"
    return {"RateLimit-Policy": offered, "RateLimit": left}


def _note_outage(exception: Exception, request: HttpRequest) -> None:
    """An outage fails many requests alike: a line for each that asked, and no traceback."""
    if isinstance(exception, DatabaseUnavailable):
        return  # it was refused without asking
    outage.failed()
    log.warning(
        "database does not answer",
        extra={"request_id": request_id(request), "reason": " ".join(str(exception).split())},
    )


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
    slash = request.path.startswith(("/v1/", "/mcp/")) and request.path.endswith("/")
    return answer(NotFound(_SLASH_AT_END if slash else ""), request)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Django calls this while it handles the exception, which it has logged."""
    exception = sys.exception()
    if isinstance(exception, Exception) and isinstance(as_error(exception), DatabaseUnavailable):
        told = answer(exception, request)
    else:
        told = respond(problem(InternalError(), request_id(request)))
    return _as_page(told, request) if _is_page(request) else told


def _as_page(told: HttpResponse, request: HttpRequest) -> HttpResponse:
    """The same for people. Without the request in its context: that may be what is broken."""
    text = render_to_string(f"{told.status_code}.html", {"request_id": request_id(request)})
    page = HttpResponse(text, status=told.status_code)
    if "Retry-After" in told.headers:
        page.headers["Retry-After"] = told.headers["Retry-After"]
    return page


def _is_page(request: HttpRequest) -> bool:
    """Whether a person asks: in the admin, or with a browser for what is not the API's."""
    if request.path_info.startswith(API_PREFIX):
        return False
    of_admin = request.path_info.startswith("/admin/")
    return of_admin or "text/html" in request.headers.get("Accept", "")
