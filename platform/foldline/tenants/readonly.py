"""An admin page that shows and never changes: for what only the platform itself writes."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin, TabularInline


def pretty(value: Any) -> SafeString:
    """JSON as a block of text."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return format_html('<pre style="white-space: pre-wrap">{}</pre>', text)


class _OnlyShows:
    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(_OnlyShows, ModelAdmin):
    """A list and a page for each row."""


class ReadOnlyInline(_OnlyShows, TabularInline):
    """Rows below the page of what they belong to."""

    extra = 0
