"""The queues in the admin: what waits, what holds it up, pausing and resuming."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from foldline.catalog.models import Model
from foldline.jobs.breaker import Breaker, read
from foldline.jobs.models import Job, QueueState
from foldline.jobs.pauses import REASON_CHARACTERS, pause, resume
from foldline.jobs.states import State
from foldline.tenants.dialogs import back_to
from foldline.tenants.readonly import ReadOnlyAdmin


class PauseForm(BaseDialogForm):
    reason = forms.CharField(
        max_length=REASON_CHARACTERS,
        widget=UnfoldAdminTextInputWidget,
        help_text="Shown to admins; callers see that the model is paused.",
    )


@admin.register(QueueState)
class QueueAdmin(ReadOnlyAdmin):
    list_display = ["model", "badge", "why", "next_trial", "waiting"]
    list_select_related = ["model"]
    search_fields = ["model__name"]
    actions_detail = ["pause_model", "resume_model"]
    fields = ["model", "badge", "why", "next_trial", "waiting", "accounts", "updated_at"]
    readonly_fields = fields

    def has_pause_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return bool(request.user.has_perm("jobs.change_queuestate"))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        _make_missing_queues()
        if request.method == "GET":
            tell_of_crash_loops(request)
        shown: HttpResponse = super().changelist_view(request, extra_context)
        return shown

    @display(
        description="State",
        label={"open": "success", "paused": "warning", "crash_looping": "danger"},
    )
    def badge(self, queue: QueueState) -> str:
        if queue.paused:
            return "paused"
        return "crash_looping" if read(queue.breaker).is_open else "open"

    @admin.display(description="reason")
    def why(self, queue: QueueState) -> str:
        return queue.paused or read(queue.breaker).reason

    @admin.display(description="next trial")
    def next_trial(self, queue: QueueState) -> str:
        return _next_trial(read(queue.breaker))

    @admin.display(description="jobs waiting")
    def waiting(self, queue: QueueState) -> int:
        return Job.objects.filter(model_id=queue.model_id, state=State.QUEUED).count()

    @action(
        description="Pause",
        permissions=["pause"],
        variant=ActionVariant.DANGER,
        dialog={
            "title": "Pause this model",
            "description": "Jobs are still accepted, running ones finish, and none is begun.",
            "form_class": PauseForm,
            "form_submit_text": "Pause",
        },
    )
    def pause_model(self, request: HttpRequest, form: PauseForm, object_id: str) -> HttpResponse:
        queue = QueueState.objects.select_related("model").get(pk=UUID(object_id))
        reason = form.cleaned_data["reason"]
        pause(queue.model_id, reason=reason)
        self.log_change(request, queue, f"Paused: {reason}")
        messages.success(request, f"{queue.model.name} is paused.")
        return back_to(request, queue)

    @action(
        description="Resume",
        permissions=["pause"],
        variant=ActionVariant.PRIMARY,
        dialog={
            "title": "Resume this model",
            "description": "Its jobs are begun again. If it is crash looping, the next trial is"
            " made at once.",
            "form_class": None,
            "form_submit_text": "Resume",
        },
    )
    def resume_model(self, request: HttpRequest, _form: forms.Form, object_id: str) -> HttpResponse:
        queue = QueueState.objects.select_related("model").get(pk=UUID(object_id))
        resume(queue.model_id)
        self.log_change(request, queue, "Resumed.")
        messages.success(request, f"{queue.model.name} is resumed.")
        return back_to(request, queue)


def tell_of_crash_loops(request: HttpRequest) -> None:
    """A message for each model that keeps crashing."""
    for queue in QueueState.objects.filter(breaker__isnull=False).select_related("model"):
        breaker = read(queue.breaker)
        if breaker.is_open:
            trial = _next_trial(breaker)
            told = f"{queue.model.name} is crash looping. {breaker.reason} Next trial: {trial}."
            messages.warning(request, told)


def _next_trial(breaker: Breaker) -> str:
    return f"{breaker.trial_at:%Y-%m-%d %H:%M:%S} UTC" if breaker.trial_at else ""


def _make_missing_queues() -> None:
    """A model's queue is made with its first claim; here, it can be paused before that."""
    missing = Model.objects.filter(queuestate__isnull=True)
    QueueState.objects.bulk_create(
        [QueueState(model=model) for model in missing], ignore_conflicts=True
    )
