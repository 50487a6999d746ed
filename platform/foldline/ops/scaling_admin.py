"""Scaling in the admin: how each model stands, why, and what an admin wants of it.

Here, because what it shows is known in rooms above `fleet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.forms import BaseDialogForm
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from foldline.catalog.models import Model
from foldline.fleet.models import MOST_WORKERS, ModelPolicy
from foldline.fleet.policies import pin
from foldline.jobs.breaker import read
from foldline.jobs.pause_admin import PausingAdmin, queue_of, state_of
from foldline.ops.scaling import Standing, rows_of, standings_of
from foldline.tenants.dialogs import back_to, is_among

WISHES = ["min_workers", "max_workers", "pinned", "omega"]
RIGHTS = ["floor_workers", "floor_after_s", "floor_step_s"]
STANDING = "_standing"  # of a row of the list
CARD = ["sharing", "latency_strict", "rare_and_expensive", "several_cards"]


class PolicyForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    """Says in words what no scaler could keep."""

    class Meta:
        model = ModelPolicy
        fields = [*WISHES, *RIGHTS, *CARD]
        labels = {
            "omega": "Worth of waiting (omega)",
            "floor_workers": "Workers",
            "floor_after_s": "After seconds",
            "floor_step_s": "Seconds a step",
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        least, most = cleaned.get("min_workers"), cleaned.get("max_workers")
        if least is None or most is None:
            return cleaned
        if least > most:
            self.add_error(
                "min_workers", f"At least {least} and at most {most} workers cannot both be."
            )
        right = cleaned.get("floor_workers")
        if right is not None and right > max(most, 1):
            self.add_error("floor_workers", f"A right to {right} workers, of at most {most}.")
        return cleaned


class PinForm(BaseDialogForm):
    workers = forms.IntegerField(
        min_value=0,
        max_value=MOST_WORKERS,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="0: none, whatever waits.",
    )


@admin.register(ModelPolicy)
class ScalingAdmin(PausingAdmin):
    """A page for each model. Its row is made when somebody first looks."""

    form = PolicyForm
    list_display = ["model", "badge", "standing", "pinned", "min_workers", "max_workers"]
    list_select_related = ["model__queuestate"]
    search_fields = ["model__name"]
    ordering = ["model__name"]
    actions_detail = ["pause_model", "resume_model", "pin_workers", "unpin_workers"]
    readonly_fields = ["model", "badge", "stands"]
    fieldsets = [
        (None, {"fields": ["model", "badge", "stands"]}),
        ("What is wanted", {"fields": WISHES}),
        ("Rights while jobs wait", {"fields": RIGHTS}),
        ("Share or whole card", {"fields": CARD}),
    ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_pin_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("fleet.change_modelpolicy") and _is_row(object_id)

    def has_unpin_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return self.has_pin_permission(request, object_id) and _is_row(
            object_id, pinned__isnull=False
        )

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        _make_missing_rows()
        shown: HttpResponse = super().changelist_view(request, extra_context)
        return shown

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> ModelPolicy | None:
        _make_missing_rows()
        found: ModelPolicy | None = super().get_object(request, object_id, from_field)
        return found

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return _ScalingList

    @admin.display(description="workers, of desired")
    def standing(self, policy: ModelPolicy) -> str:
        return getattr(policy, STANDING, "")

    @admin.display(description="how it stands")
    def stands(self, policy: ModelPolicy) -> SafeString:
        queue = queue_of(policy.pk)
        context = {
            "rows": rows_of(policy.pk),
            "held": state_of(queue).replace("_", " "),
            "why": queue.paused or read(queue.breaker).reason,
        }
        return render_to_string("admin/fleet/scaling.html", context)

    @action(
        description="Pin",
        permissions=["pin"],
        dialog={
            "title": "Pin its workers",
            "description": "Exactly so many, whatever waits. A busy worker still ends its job.",
            "form_class": PinForm,
            "form_submit_text": "Pin",
        },
    )
    def pin_workers(self, request: HttpRequest, form: PinForm, object_id: str) -> HttpResponse:
        workers = form.cleaned_data["workers"]
        pin(UUID(object_id), workers=workers)
        return self._done(request, object_id, f"Pinned to {workers}.")

    @action(
        description="Unpin",
        permissions=["unpin"],
        dialog={
            "title": "Let the scaler decide again",
            "description": "Between its least and its most.",
            "form_class": None,
            "form_submit_text": "Unpin",
        },
    )
    def unpin_workers(
        self, request: HttpRequest, _form: forms.Form, object_id: str
    ) -> HttpResponse:
        pin(UUID(object_id), workers=None)
        return self._done(request, object_id, "Unpinned.")

    def _done(self, request: HttpRequest, object_id: str, words: str) -> HttpResponse:
        """Tell what was done: the admin's log, which the audit reads, and whoever did it."""
        policy = ModelPolicy.objects.select_related("model").get(pk=UUID(object_id))
        self.log_change(request, policy, words)
        messages.success(request, f"{policy.model.name}: {words}")
        return back_to(request, policy)


class _ScalingList(ChangeList):
    """How the models of a page stand, read for all of them at once."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        standings = standings_of([policy.pk for policy in self.result_list])
        for policy in self.result_list:
            setattr(policy, STANDING, _in_words(standings[policy.pk]))


def _in_words(standings: Sequence[Standing]) -> str:
    """Of the first one, which is the live revision's where there is one."""
    if not standings:
        return "not live"
    actual, decided = standings[0].actual, standings[0].decided
    if decided is None:
        return f"{actual}; no scaler has decided lately"
    tier = f", {decided.tier}" if decided.tier else ""
    return f"{actual} of {decided.desired}{tier}: {decided.reason}"


def _is_row(object_id: str | None, **wanted: Any) -> bool:
    """Whether an action's page is of such a row; a list is asked about as a whole."""
    return is_among(ModelPolicy.objects.filter(**wanted), object_id)


def _make_missing_rows() -> None:
    missing = Model.objects.filter(policy__isnull=True)
    ModelPolicy.objects.bulk_create(
        [ModelPolicy(model=model) for model in missing], ignore_conflicts=True
    )
