from __future__ import annotations

from django.contrib import admin
from unfold.decorators import display

from foldline.fleet.models import Worker
from foldline.tenants.readonly import ReadOnlyAdmin


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "revision", "badge", "node", "last_seen", "current_job"]
    list_filter = ["state", "revision__model"]
    search_fields = ["name", "node"]
    list_select_related = ["revision__model"]

    @display(
        description="State",
        ordering="state",
        label={"ready": "success", "busy": "info", "gone": "danger"},
    )
    def badge(self, worker: Worker) -> str:
        return worker.state
