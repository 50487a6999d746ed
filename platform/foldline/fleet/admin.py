from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.decorators import action, display

from foldline.clock import database_now, day_of
from foldline.fleet.accounts import held_now, paid_by_day
from foldline.fleet.models import Worker
from foldline.tenants.readonly import ReadOnlyAdmin

SHOWN_DAYS = 31


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "revision", "badge", "node", "last_seen", "current_job"]
    list_filter = ["state", "revision__model"]
    search_fields = ["name", "node"]
    list_select_related = ["revision__model"]
    actions_list = ["paid"]

    def has_paid_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("tenants.view_ledgerline"))

    @action(description="What was paid", permissions=["paid"])
    def paid(self, request: HttpRequest) -> HttpResponse:
        today = day_of(database_now())
        rows = paid_by_day(first=today - timedelta(days=SHOWN_DAYS - 1), last=today)
        context = {
            **self.admin_site.each_context(request),
            "opts": Worker._meta,
            "title": "What was paid",
            "days": SHOWN_DAYS,
            "currency": settings.CURRENCY,
            "rows": [*held_now(), *rows],
        }
        return TemplateResponse(request, "admin/fleet/paid.html", context)

    @display(
        description="State",
        ordering="state",
        label={"ready": "success", "busy": "info", "gone": "danger"},
    )
    def badge(self, worker: Worker) -> str:
        return worker.state
