"""Where the admin goes after a dialog."""

from __future__ import annotations

from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse


def back_to(request: HttpRequest, row: Model) -> HttpResponse:
    """To the page of a row: by htmx, which sends unfold's dialogs, or as a plain redirect."""
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    url = reverse(name, args=[row.pk])
    if request.headers.get("HX-Request"):
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)
