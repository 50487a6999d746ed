"""What all views of the API share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.views import APIView

from foldline.api.rendering import AlwaysJSON
from foldline.errors import FoldlineError, InvalidRequest, finding
from foldline.tenants.models import ApiKey
from foldline.tenants.services import Caller

_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TO_WAIT = (
    "A submit waits with the header `Prefer: wait=n`; a job is waited for at /v1/jobs/{id}?wait=n."
)


class ApiView(APIView):
    """An ordinary view: DRF authenticates, asks for `scope`, and shapes errors. `parameters`: all
    that its query may hold; `asked`: what it holds. An address that asks for no key has none: it
    is a link that people pass on, and chats and mails add to links (`utm_source`)."""

    scope: str = ApiKey.Scope.READ
    parameters: Sequence[str] = ()
    asked: dict[str, str]
    http_method_names = ["get", "head", "post"]
    content_negotiation_class = AlwaysJSON

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.asked = query(request, *self.parameters) if self.permission_classes else {}


def caller(request: Request) -> Caller:
    """Who asks, in a view that requires a key."""
    return cast("Caller", request.user)


def identifier(text: str, *, missing: type[FoldlineError]) -> UUID:
    """The id in a URL. One that is no id names nothing, like any other unknown one."""
    try:
        return UUID(text)
    except ValueError:
        raise missing from None


def query(request: HttpRequest | Request, *known: str) -> dict[str, str]:
    """The query's parameters. Raises InvalidRequest for one that nobody knows or that comes
    twice, and for values that are no plain text."""
    parameters = request.GET
    for name, values in parameters.lists():
        if name not in known:
            expected = ", ".join(known) or "no parameter"
            hint = _TO_WAIT if name == "wait" else ""
            raise wrong_parameter(name, "unknown_parameter", got=name, expected=expected, hint=hint)
        if len(values) > 1:
            raise wrong_parameter(name, "duplicate_parameter", got=values[0], expected="one value")
        if _NO_TEXT.search(values[0]):
            raise wrong_parameter(name, "invalid", got=values[0], expected="no control characters")
    return parameters.dict()


def wrong_parameter(
    name: str, code: str, *, got: str, expected: str, hint: str = ""
) -> InvalidRequest:
    """An error about the query; its pointer is `?name`."""
    found = finding(f"?{name}", code, got=got, expected=expected, hint=hint)
    return InvalidRequest(errors=[found])
