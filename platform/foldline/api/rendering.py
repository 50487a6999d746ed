"""JSON out: orjson, UTC with a Z, no other format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from django.http import HttpResponse
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


def dump(body: Any) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_UTC_Z)


def json_response(
    body: Any,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
) -> HttpResponse:
    return HttpResponse(dump(body), status=status, headers=headers, content_type=content_type)


class JSONRenderer(BaseRenderer):
    """The same for views that return DRF's `Response`."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return dump(data)


class AlwaysJSON(BaseContentNegotiation):
    """Whatever a client says it accepts, it gets JSON: a 406 helps no agent."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        return next(iter(parsers), None)

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, first.media_type
