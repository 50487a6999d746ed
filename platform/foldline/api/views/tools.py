"""The models as tools for agents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.http import HttpResponse
from django.utils.cache import get_conditional_response
from rest_framework.request import Request

from foldline.api.answers import ToolList
from foldline.api.openapi import TOOL_FORMAT, describe
from foldline.api.rendering import dump
from foldline.api.views.base import ApiView, wrong_parameter
from foldline.catalog.selectors import LiveModel, live_models
from foldline.catalog.tool_formats import FORMATS, exported
from foldline.catalog.tools import Pace, model_tools
from foldline.forecasts.reading import reading_of
from foldline.fresh import Fresh


@dataclass(frozen=True, kw_only=True)
class Document:
    body: bytes
    etag: str


tools_kept: Fresh[str, Document] = Fresh()
"""By format. The tools are the same for everybody who may call."""


class ToolsView(ApiView):
    parameters = ("format",)

    @describe(
        "List the models as tools for agents",
        {200: ToolList},
        parameters=(TOOL_FORMAT,),
        errors=(400,),
        detail="In the words of OpenAI's Responses API, of Anthropic's Messages API or of MCP; with"
        " tools for the jobs that calls become. The order and the `ETag` stay while nothing"
        " changes; with `If-None-Match` the answer is then 304.",
    )
    def get(self, request: Request) -> HttpResponse:
        asked = self.asked.get("format", "")
        if asked not in FORMATS:
            expected = f"one of {', '.join(FORMATS)}"
            raise wrong_parameter("format", "not_allowed", got=asked, expected=expected)
        document = tools_kept.get(asked, lambda: _document(asked))
        told = HttpResponse(
            document.body,
            content_type="application/json",
            headers={"ETag": document.etag, "Cache-Control": "private, no-cache"},
        )
        found = get_conditional_response(request._request, etag=document.etag, response=told)
        return found or told


def _document(form: str) -> Document:
    models = live_models()
    body = dump(exported(model_tools(models, paces_of(models)), form=form))
    return Document(body=body, etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def paces_of(models: Sequence[LiveModel]) -> dict[UUID, Pace]:
    """By revision, of the models that have run: what a call like their example takes."""
    now = datetime.now(UTC)
    paces = {}
    for model in models:
        reading = reading_of(model.revision_id, now=now)
        if reading is None or not reading.outlook.measured:
            continue
        outlook = reading.outlook
        run = outlook.expected(_typical_size(model))
        paces[model.revision_id] = Pace(
            run_p50_s=run.run_p50_s, run_p90_s=run.run_p90_s, load_s=outlook.cold_p50_s
        )
    return paces


def _typical_size(model: LiveModel) -> int:
    examples = model.input_schema.get("examples") or [{}]
    return len(dump(model.compiled.normalized(examples[0])))
