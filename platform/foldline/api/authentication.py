"""Who asks: the API key of a request, and what it may do."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from foldline.api.outage import outage
from foldline.errors import KeyInURL, KeyMissing, ScopeMissing
from foldline.tenants.services import KEY, Caller, authenticate
from foldline.tenants.visits import count_visit


def caller_of(request: HttpRequest, *, scope: str) -> Caller:
    """The caller, allowed to do `scope`. Raises KeyInURL, KeyMissing, KeyRefused, ScopeMissing,
    QuotaExceeded, and DatabaseUnavailable while it is of no use to ask."""
    caller = _identified(request)
    _require(caller, scope)
    return caller


def _identified(request: HttpRequest) -> Caller:
    # Before the key is looked at: one in the URL is compromised even beside a good header.
    if KEY.search(request.META.get("QUERY_STRING", "")) or KEY.search(request.path):
        raise KeyInURL
    outage.refuse()
    scheme, _, key = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if not scheme:
        raise KeyMissing
    if scheme.lower() != "bearer":
        raise KeyMissing("The header `Authorization` has another scheme than `Bearer`.")
    caller = authenticate(key.strip())
    count_visit(caller, method=_counted_as(request), environ=request.META)
    return caller


def _counted_as(request: HttpRequest) -> str | None:
    """A cancel ends work: who has no request left may still send it, as often as it may ask."""
    match = request.resolver_match
    return "GET" if match is not None and match.url_name in _CANCELS else request.method


_CANCELS = ("cancel", "cancel_batch")


def _require(caller: Caller, scope: str) -> None:
    if scope not in caller.scopes:
        raise ScopeMissing(f"This call needs a key with the scope `{scope}`.")


class ApiKeyAuthentication(BaseAuthentication):
    """Sets `request.user` to the `Caller`."""

    def authenticate(self, request: Request) -> tuple[Any, None]:
        return _identified(request._request), None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class HasScope(BasePermission):
    """Asks for the scope that the view names for its methods."""

    def has_permission(self, request: Request, view: Any) -> bool:
        _require(cast("Caller", request.user), view.scope)
        return True
