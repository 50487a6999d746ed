"""Jobs as they were, with their attempts and events. Inputs are on a job's own page only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from foldline.jobs.models import Attempt, Event, Job
from foldline.tenants.readonly import ReadOnlyAdmin, ReadOnlyInline, pretty

JSON_FIELDS = ("inputs", "normalized_input", "progress", "warnings", "result", "error")


class AttemptInline(ReadOnlyInline):
    model = Attempt
    ordering = ["number"]


class EventInline(ReadOnlyInline):
    model = Event
    ordering = ["sequence"]


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ["id", "model", "badge", "tenant", "attempt", "created_at", "finished_at"]
    list_filter = ["state", "model", "priority", "dead_letter"]
    search_fields = ["id", "session"]
    list_select_related = ["model", "tenant"]
    ordering = ["-id"]
    inlines = [AttemptInline, EventInline]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Every column; those of JSON as readable text."""
        names = [field.name for field in Job._meta.fields]
        return [f"{name}_text" if name in JSON_FIELDS else name for name in names]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return self.get_fields(request, obj)

    @display(
        description="State",
        ordering="state",
        label={"succeeded": "success", "running": "info", "failed": "danger"},
    )
    def badge(self, job: Job) -> str:
        return job.state

    @admin.display(description="inputs")
    def inputs_text(self, job: Job) -> SafeString:
        return pretty(job.inputs)

    @admin.display(description="normalized input")
    def normalized_input_text(self, job: Job) -> SafeString:
        return pretty(job.normalized_input)

    @admin.display(description="progress")
    def progress_text(self, job: Job) -> SafeString:
        return pretty(job.progress)

    @admin.display(description="warnings")
    def warnings_text(self, job: Job) -> SafeString:
        return pretty(job.warnings)

    @admin.display(description="result")
    def result_text(self, job: Job) -> SafeString:
        return pretty(job.result)

    @admin.display(description="error")
    def error_text(self, job: Job) -> SafeString:
        return pretty(job.error)
