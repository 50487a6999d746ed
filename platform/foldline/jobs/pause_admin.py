"""Pausing and resuming a model, on each admin page that has a row for a model."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Model as Row
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from foldline.jobs.breaker import read
from foldline.jobs.models import QueueState
from foldline.jobs.pauses import REASON_CHARACTERS, pause, resume
from foldline.tenants.dialogs import back_to, is_among


class PauseForm(BaseDialogForm):
    reason = forms.CharField(
        max_length=REASON_CHARACTERS,
        widget=UnfoldAdminTextInputWidget,
        help_text="Shown to admins; callers see that the model is paused.",
    )


class PausingAdmin(ModelAdmin):
    """For rows of a `model`, whose primary key is the model's. Name both actions in
    `actions_detail`, and have the list select the model's queue."""

    def has_pause_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        may = request.user.has_perm("jobs.change_queuestate")
        return may and is_among(self.model._default_manager.all(), object_id)

    def has_resume_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        may = self.has_pause_permission(request, object_id)
        return may and not (object_id and state_of(queue_of(UUID(object_id))) == "open")

    @display(
        description="State",
        label={"open": "success", "paused": "warning", "crash_looping": "danger"},
    )
    def badge(self, row: Row) -> str:
        kept: Any = row
        return state_of(getattr(kept.model, "queuestate", None) or QueueState())

    @action(
        description="Pause",
        permissions=["pause"],
        variant=ActionVariant.DANGER,
        dialog={
            "title": "Pause this model",
            "description": "Jobs are still accepted, running ones finish, and none is begun. Its"
            " workers leave when they have been idle long enough.",
            "form_class": PauseForm,
            "form_submit_text": "Pause",
        },
    )
    def pause_model(self, request: HttpRequest, form: PauseForm, object_id: str) -> HttpResponse:
        reason = form.cleaned_data["reason"]
        pause(UUID(object_id), reason=reason)
        return self._told(request, object_id, f"Paused: {reason}")

    @action(
        description="Resume",
        permissions=["resume"],
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
        resume(UUID(object_id))
        return self._told(request, object_id, "Resumed.")

    def _told(self, request: HttpRequest, object_id: str, words: str) -> HttpResponse:
        """In the queue's log, and to whoever did it; back to the page it was done on."""
        queue = queue_of(UUID(object_id))
        self.log_change(request, queue, words)
        messages.success(request, f"{queue.model.name}: {words}")
        row: Any = self.model._default_manager.get(pk=UUID(object_id))
        return back_to(request, row)


def queue_of(model_id: UUID) -> QueueState:
    """As it is; one that says nothing while there is none."""
    found = QueueState.objects.select_related("model").filter(model_id=model_id).first()
    return found or QueueState()


def state_of(queue: QueueState) -> str:
    if queue.paused:
        return "paused"
    return "crash_looping" if read(queue.breaker).is_open else "open"
