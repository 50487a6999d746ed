"""Which rows a dialog of the admin is offered for, and where it goes afterwards."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse


def back_to(request: HttpRequest, row: Model) -> HttpResponse:
    """To the page of a row: by htmx, which sends unfold's dialogs, or as a plain redirect."""
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    url = reverse(name, args=[row.pk])
    if request.headers.get("HX-Request"):
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


def is_among(rows: QuerySet[Model], object_id: str | None) -> bool:
    """Whether a page's row is one of these. A list (None) is asked about as a whole; what is no
    id is none of them, and the page itself says so."""
    if object_id is None:
        return True
    try:
        return rows.filter(pk=object_id).exists()
    except ValidationError:
        return False
