"""An admin page that shows and never changes: for what only the platform itself writes."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin, TabularInline
from unfold.views import ChangeList


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

    # Columns that are shown on a row's own page only, and may be large.
    list_defers: tuple[str, ...] = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LightList


class LightList(ChangeList):
    """A list that reads no column of `list_defers`."""

    def get_queryset(self, request: HttpRequest, *arguments: Any, **named: Any) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request, *arguments, **named)
        return rows.defer(*self.model_admin.list_defers)


class ReadOnlyInline(_OnlyShows, TabularInline):
    """Rows below the page of what they belong to."""

    extra = 0
    hide_title = True  # the columns say it
