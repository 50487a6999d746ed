"""The queues in the admin: what waits, what holds it up, pausing and resuming."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from unfold.views import ChangeList

from foldline.catalog.models import Model
from foldline.jobs.breaker import Breaker, read
from foldline.jobs.models import Job, QueueState
from foldline.jobs.pause_admin import PausingAdmin
from foldline.jobs.states import State
from foldline.tenants.readonly import ReadOnlyAdmin

WAITING = "_waiting"  # of a row of the list


@admin.register(QueueState)
class QueueAdmin(PausingAdmin, ReadOnlyAdmin):
    list_display = ["model", "badge", "why", "next_trial", "waiting"]
    list_select_related = ["model"]
    ordering = ["model__name"]
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

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return _QueueList

    @admin.display(description="jobs waiting")
    def waiting(self, queue: QueueState) -> int:
        kept: int | None = getattr(queue, WAITING, None)
        return _waiting([queue.pk]).get(queue.pk, 0) if kept is None else kept


class _QueueList(ChangeList):
    """The jobs that wait are counted for all rows of a page at once."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        waiting = _waiting([queue.pk for queue in self.result_list])
        for queue in self.result_list:
            setattr(queue, WAITING, waiting.get(queue.pk, 0))


def _waiting(model_ids: Collection[UUID]) -> Mapping[UUID, int]:
    jobs = Job.objects.filter(model_id__in=model_ids, state=State.QUEUED).order_by()
    return dict(jobs.values_list("model_id").annotate(Count("id")))


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
