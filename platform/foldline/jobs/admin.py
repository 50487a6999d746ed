"""Jobs as they were, with their attempts and events. Inputs are on a job's own page only."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from foldline.jobs.filters import CodeFilter, DeadLetterFilter, FailureFilter
from foldline.jobs.models import Attempt, Event, Fault, Job
from foldline.jobs.queue_admin import QueueAdmin, tell_of_crash_loops
from foldline.jobs.redrive import Redriven, dead_letters, piles, redrive
from foldline.tenants.dialogs import back_to, is_among
from foldline.tenants.readonly import ReadOnlyAdmin, ReadOnlyInline, pretty

__all__ = ["JobAdmin", "QueueAdmin"]

JSON_FIELDS = ("inputs", "normalized_input", "progress", "warnings", "result", "error")
SHOWN_CHARACTERS = 100
MOST_AT_ONCE = 500
MOST_REASONS = 5


class AttemptInline(ReadOnlyInline):
    model = Attempt
    ordering = ["number"]
    fields = [
        *("number", "worker", "started_at", "ended_at", "outcome", "seconds", "share"),
        *("memory", "gpu_memory", "checkpoint_step"),
    ]
    readonly_fields = fields

    @admin.display(description="GPU-seconds")
    def seconds(self, attempt: Attempt) -> str:
        return f"{attempt.gpu_seconds:.3f}"

    @admin.display(description="peak memory")
    def memory(self, attempt: Attempt) -> str:
        return filesizeformat(attempt.peak_memory_bytes) if attempt.peak_memory_bytes else ""

    @admin.display(description="peak on its card")
    def gpu_memory(self, attempt: Attempt) -> str:
        return filesizeformat(attempt.peak_gpu_bytes) if attempt.peak_gpu_bytes else ""


class EventInline(ReadOnlyInline):
    model = Event
    ordering = ["sequence"]
    fields = ["sequence", "at", "kind", "data"]


@admin.register(Fault)
class FaultAdmin(ReadOnlyAdmin):
    list_display = ["part", "times", "last_at", "words"]
    ordering = ["-last_at"]


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = [
        *("id", "model", "badge", "tenant", "attempt", "created_at", "finished_at"),
        *("failed_as", "message"),
    ]
    list_filter = [DeadLetterFilter, CodeFilter, FailureFilter, "state", "model", "priority"]
    search_fields = ["id", "session"]
    list_select_related = ["model", "tenant"]
    list_defers = ("inputs", "normalized_input", "progress", "warnings", "result")
    ordering = ["-id"]
    inlines = [AttemptInline, EventInline]
    actions = ["redrive_selected"]
    actions_detail = ["redrive_this"]

    # Every column; those of JSON as readable text, a traceback as it was printed.
    fieldsets = [
        (
            None,
            {
                "fields": [
                    *("id", "tenant", "model", "revision", "priority", "session", "state"),
                    *("created_at", "started_at", "finished_at", "progress_text"),
                ]
            },
        ),
        (
            "What went wrong",
            {
                "fields": [
                    *("code", "message", "digest", "traceback", "dead_letter", "redrives"),
                    *("redrive_of", "error_text"),
                ]
            },
        ),
        (
            "Inputs and result",
            {
                "fields": [
                    *("inputs_text", "normalized_input_text", "warnings_text", "seed"),
                    *("seed_origin", "input_size", "next_models", "result_text"),
                ]
            },
        ),
        (
            "In line and at work",
            {
                "fields": [
                    *("estimate_gpu_s", "gpu_seconds", "not_before", "start_by", "deadline"),
                    *("attempt", "owner", "lease_until", "cancel_requested"),
                ]
            },
        ),
        (
            "Equal calls",
            {
                "fields": [
                    *("shared", "attached_to", "cache_of", "fingerprint", "idempotency_key"),
                    "payload_digest",
                ]
            },
        ),
        ("Who is told", {"fields": ["notify", "webhook", "traceparent"]}),
    ]
    readonly_fields = [
        *("code", "message", "digest", "traceback", "redrives"),
        *(f"{name}_text" for name in JSON_FIELDS),
    ]

    def has_redrive_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        may = bool(request.user.has_perm("jobs.change_job"))
        return may and is_among(dead_letters(), object_id)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if request.method == "GET":
            tell_of_crash_loops(request)
        shown: HttpResponse = super().changelist_view(request, extra_context)
        return shown

    @admin.action(description="Redrive the selected dead letters", permissions=["redrive"])
    def redrive_selected(self, request: HttpRequest, jobs: QuerySet[Job]) -> HttpResponse | None:
        """Ask, with the numbers; once confirmed, do it."""
        waiting = dead_letters().filter(pk__in=jobs.values("pk"))
        if request.POST.get("confirmed") == "yes":
            chosen = list(waiting.values_list("id", flat=True)[:MOST_AT_ONCE])
            self._tell(request, redrive(chosen, by=request.user.get_username()))
            return None
        count = min(waiting.count(), MOST_AT_ONCE)
        context = {
            **self.admin_site.each_context(request),
            "opts": Job._meta,
            "title": "Redrive dead letters",
            "count": count,
            "others": jobs.count() - count,
            "piles": piles(waiting),
            "selected": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "across": request.POST.get("select_across", "0"),
            "checkbox": ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/jobs/redrive.html", context)

    @action(
        description="Redrive",
        permissions=["redrive"],
        variant=ActionVariant.PRIMARY,
        dialog={
            "title": "Redrive this job",
            "description": "A new job with the same inputs and seed is made, on the model's live"
            " revision. This one stays as it is.",
            "form_class": None,
            "form_submit_text": "Redrive",
        },
    )
    def redrive_this(self, request: HttpRequest, _form: forms.Form, object_id: str) -> HttpResponse:
        job = Job.objects.get(pk=object_id)
        self._tell(request, redrive([job.id], by=request.user.get_username()))
        return back_to(request, job)

    def _tell(self, request: HttpRequest, done: Redriven) -> None:
        for old in Job.objects.filter(pk__in=done.made):
            self.log_change(request, old, f"Redriven as {done.made[old.id]}.")
        if done.made:
            messages.success(request, f"New jobs in line: {len(done.made)}.")
        for job_id, reason in list(done.refused.items())[:MOST_REASONS]:
            messages.error(request, f"{job_id}: {reason}")
        if len(done.refused) > MOST_REASONS:
            messages.error(request, f"Refused in all: {len(done.refused)}.")

    @display(
        description="State",
        ordering="state",
        label={"succeeded": "success", "running": "info", "failed": "danger"},
    )
    def badge(self, job: Job) -> str:
        return job.state

    @admin.display(description="error code")
    def code(self, job: Job) -> str:
        return str((job.error or {}).get("code", ""))

    @admin.display(description="error")
    def failed_as(self, job: Job) -> SafeString:
        """Its code, and the digest that those share which failed in the same way."""
        return format_html("{}<br>{}", self.code(job), self.digest(job))

    @admin.display(description="message")
    def message(self, job: Job) -> str:
        text = str(_cause(job).get("detail", ""))
        return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"

    @admin.display(description="failure")
    def digest(self, job: Job) -> str:
        return str((job.error or {}).get("details", {}).get("digest", ""))

    @admin.display(description="traceback")
    def traceback(self, job: Job) -> SafeString:
        text = _cause(job).get("details", {}).get("traceback", "")
        return format_html('<pre style="white-space: pre-wrap">{}</pre>', text)

    @admin.display(description="redriven as")
    def redrives(self, job: Job) -> str:
        made = job.redrives.order_by("id")
        return ", ".join(f"{each.id} ({each.state})" for each in made) or "not redriven"

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


def _cause(job: Job) -> dict[str, Any]:
    """The error itself; of a poison job, the last thing it did."""
    error: dict[str, Any] = job.error or {}
    cause: dict[str, Any] = error.get("details", {}).get("cause", error)
    return cause
