"""The queues in the admin: what waits, what holds it up, pausing and resuming."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse

from foldline.catalog.models import Model
from foldline.jobs.breaker import Breaker, read
from foldline.jobs.models import Job, QueueState
from foldline.jobs.pause_admin import PausingAdmin
from foldline.jobs.states import State
from foldline.tenants.readonly import ReadOnlyAdmin


@admin.register(QueueState)
class QueueAdmin(PausingAdmin, ReadOnlyAdmin):
    list_display = ["model", "badge", "why", "next_trial", "waiting"]
    list_select_related = ["model"]
    search_fields = ["model__name"]
    actions_detail = ["pause_model", "resume_model"]
    fields = ["model", "badge", "why", "next_trial", "waiting", "accounts", "updated_at"]
    readonly_fields = fields

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        _make_missing_queues()
        if request.method == "GET":
            tell_of_crash_loops(request)
        shown: HttpResponse = super().changelist_view(request, extra_context)
        return shown

    @admin.display(description="reason")
    def why(self, queue: QueueState) -> str:
        return queue.paused or read(queue.breaker).reason

    @admin.display(description="next trial")
    def next_trial(self, queue: QueueState) -> str:
        return _next_trial(read(queue.breaker))

    @admin.display(description="jobs waiting")
    def waiting(self, queue: QueueState) -> int:
        return Job.objects.filter(model_id=queue.model_id, state=State.QUEUED).count()


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
