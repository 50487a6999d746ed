"""Quotas in the admin: a row for a tenant as a whole, and one for each model that differs."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from foldline.tenants.models import Quota

GIB = 1024**3
PROPOSED = {
    "weight": 1,
    "requests_per_minute": 600,
    "polls_per_minute": 6000,
    "waiting": 1000,
    "running": 8,
    "gpu_seconds_day": 10 * 3600,
    "gpu_seconds_month": 200 * 3600,
    "artifact_bytes": 10 * GIB,
    "input_bytes": 1024 * 1024,
}
OF_WHOLE_ONLY = ("polls_per_minute", "artifact_bytes")
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100


class QuotaForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    """Says in words what the table's constraints would refuse."""

    class Meta:
        model = Quota
        fields = ["tenant", "model", "allowed", *PROPOSED]
        labels: ClassVar = {
            "gpu_seconds_day": "GPU-seconds a day",
            "gpu_seconds_month": "GPU-seconds a month",
            "artifact_bytes": "Bytes of files",
            "input_bytes": "Bytes of inputs",
        }
        help_texts: ClassVar = {
            "requests_per_minute": "Jobs submitted; each of a batch counts.",
            "waiting": "Jobs in line at once.",
            "running": "Jobs at work at once.",
            "gpu_seconds_day": "The budget of one day (UTC).",
            "gpu_seconds_month": "The budget of one month (UTC).",
            "artifact_bytes": "All files it keeps here.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        weight = cleaned.get("weight")
        if weight is not None and not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
            self.add_error(
                "weight",
                f"Between {LEAST_WEIGHT} and {MOST_WEIGHT}. To stop a tenant, untick `allowed`.",
            )
        if cleaned.get("model"):
            for name in OF_WHOLE_ONLY:
                if cleaned.get(name) is not None:
                    self.add_error(name, "This is counted over all models: leave it empty here.")
        if self.instance.pk is None and self._exists(cleaned):
            self.add_error("model", "There is a row of this already: change that one.")
        return cleaned

    def _exists(self, cleaned: dict[str, Any]) -> bool:
        tenant, model = cleaned.get("tenant"), cleaned.get("model")
        if tenant is None:
            return False
        of_model = {"model": model} if model else {"model__isnull": True}
        return Quota.objects.filter(tenant=tenant, **of_model).exists()


@admin.register(Quota)
class QuotaAdmin(ModelAdmin):
    form = QuotaForm
    list_display = ["tenant", "model_or_all", "allowed", *PROPOSED]
    list_filter = ["tenant"]
    list_select_related = ["tenant", "model"]
    ordering = ["tenant__slug", "model__name"]
    fields = ["tenant", "model", "allowed", *PROPOSED]  # also where the first two are settled

    def get_readonly_fields(self, request: HttpRequest, obj: Quota | None = None) -> list[str]:
        return ["tenant", "model"] if obj else []

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """For a tenant as a whole; a row of one model begins empty."""
        asked: dict[str, Any] = super().get_changeform_initial_data(request)
        return asked if asked.get("model") else {**PROPOSED, **asked}

    @admin.display(description="model", ordering="model__name")
    def model_or_all(self, quota: Quota) -> str:
        return str(quota.model) if quota.model else "all models"
