"""The API's description of itself."""

from __future__ import annotations

from functools import cache

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request

from foldline.api.openapi import describe, document
from foldline.api.rendering import dump
from foldline.api.views.base import ApiView


class DocumentView(ApiView):
    authentication_classes = []
    permission_classes = []

    @describe("This document", {200: OpenApiTypes.OBJECT}, public=True)
    def get(self, _request: Request) -> HttpResponse:
        return HttpResponse(_document(), content_type="application/json")


@cache
def _document() -> bytes:
    return dump(document())
