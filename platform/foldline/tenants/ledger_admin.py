"""The ledger in the admin: to be read, summed and exported, never changed."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from foldline.clock import day_of
from foldline.tenants.ledger_csv import csv_response
from foldline.tenants.models import AuditEntry, DailyUse, LedgerLine, Tenant
from foldline.tenants.readonly import ReadOnlyAdmin
from foldline.tenants.usage import by_kind, within

MOST_CHOICES = 100
MONTHS = 12
Choices = list[tuple[str, str]]


class TenantFilter(admin.SimpleListFilter):
    title = "tenant"
    parameter_name = "of"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        rows = Tenant.objects.order_by("slug").values_list("id", "slug")[:MOST_CHOICES]
        return [("nobody", "nobody"), *((str(key), slug) for key, slug in rows)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[LedgerLine]) -> Any:
        if self.value() == "nobody":
            return queryset.filter(tenant_id=None)
        known = dict(self.lookup_choices)
        return queryset.filter(tenant_id=self.value()) if self.value() in known else queryset


class ModelFilter(admin.SimpleListFilter):
    title = "model"
    parameter_name = "model"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        # From the daily sums: there are a thousand times fewer of them than lines.
        names = DailyUse.objects.order_by("model").values_list("model", flat=True).distinct()
        return [(name, name) for name in names[:MOST_CHOICES]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[LedgerLine]) -> Any:
        return queryset.filter(model=self.value()) if self.value() else queryset


class PeriodFilter(admin.SimpleListFilter):
    """This month, unless another one, a day or everything is chosen."""

    title = "date (UTC)"
    parameter_name = "period"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [("all", "All"), *((name, name) for name in _periods(day_of(timezone.now())))]

    def choices(self, changelist: Any) -> Any:
        usual, *others = super().choices(changelist)
        return [{**usual, "display": "This month"}, *others]

    def queryset(self, request: HttpRequest, queryset: QuerySet[LedgerLine]) -> Any:
        if self.value() == "all":
            return queryset
        today = day_of(timezone.now())
        first, last = _periods(today).get(self.value() or "", (today.replace(day=1), today))
        return within(queryset, first=first, last=last)


@admin.register(LedgerLine)
class LedgerAdmin(ReadOnlyAdmin):
    list_display = [
        *("at", "kind", "tenant", "model", "session", "seconds", "cost"),
        *("job_id", "attempt", "worker"),
    ]
    list_filter = ["kind", PeriodFilter, TenantFilter, ModelFilter]
    search_fields = ["session", "worker", "tenant"]
    ordering = ["-id"]
    actions = ["export_selected"]
    show_full_result_count = False
    list_before_template = "admin/tenants/ledger_totals.html"

    @admin.display(description="GPU-seconds", ordering="gpu_seconds")
    def seconds(self, line: LedgerLine) -> str:
        return f"{line.gpu_seconds:.3f}"

    def get_urls(self) -> list[URLPattern]:
        export = self.admin_site.admin_view(self.export)
        urls: list[URLPattern] = super().get_urls()
        return [path("export/", export, name="tenants_ledgerline_export"), *urls]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        shown: HttpResponse = super().changelist_view(request, extra_context)
        context = shown.context_data if isinstance(shown, TemplateResponse) else None
        if context and "cl" in context:
            sums = by_kind(context["cl"].queryset)
            labels = dict(LedgerLine.Kind.choices)
            context["totals"] = [(labels[kind], sums[kind]) for kind in labels if kind in sums]
            context["currency"] = settings.CURRENCY
            query = request.GET.urlencode()
            context["export_url"] = f"{reverse('admin:tenants_ledgerline_export')}?{query}"
        return shown

    def export(self, request: HttpRequest) -> HttpResponseBase:
        """The lines of the list as it is filtered."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            lines = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseRedirect(reverse("admin:tenants_ledgerline_changelist"))
        return _exported(request, lines, what=request.GET.urlencode() or "this month")

    @admin.action(description="Export the selected lines as CSV", permissions=["view"])
    def export_selected(
        self, request: HttpRequest, lines: QuerySet[LedgerLine]
    ) -> HttpResponseBase:
        return _exported(request, lines, what="a selection")


def _exported(request: HttpRequest, lines: QuerySet[LedgerLine], *, what: str) -> HttpResponseBase:
    AuditEntry.objects.create(
        actor=request.user.get_username(),
        action="export",
        kind=LedgerLine._meta.label_lower,
        label="lines of the ledger",
        changes={"exported": [None, what]},
    )
    return csv_response(lines, day=day_of(timezone.now()))


def _periods(today: date) -> dict[str, tuple[date, date]]:
    """Today, yesterday and the months before this one, by what they are called."""
    yesterday = today - timedelta(days=1)
    found = {"today": (today, today), "yesterday": (yesterday, yesterday)}
    first = today.replace(day=1)
    for _ in range(MONTHS):
        last = first - timedelta(days=1)
        first = last.replace(day=1)
        found[f"{first:%Y-%m}"] = (first, last)
    return found
