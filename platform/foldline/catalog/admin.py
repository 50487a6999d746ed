"""Review of models: a draft is read, its settings are fixed, and it is set live. Prices and
alternatives."""

from __future__ import annotations

import difflib
import json
from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin, TabularInline
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from foldline.catalog.models import Alternative, Model, Revision
from foldline.catalog.rules import SETTINGS, settings_problems
from foldline.catalog.services import forget, publish, retire
from foldline.errors import RevisionNotPublishable
from foldline.tenants.dialogs import back_to, is_among
from foldline.tenants.readonly import pretty

State = Revision.State
MOST_PRICE = 1000  # the ledger's column holds the cost of ten million such seconds


class SettingsForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    """Refuses settings that no worker could keep, each with its reason."""

    class Meta:
        model = Revision
        fields = SETTINGS
        labels: ClassVar = {
            "load_timeout_s": "Load timeout (s)",
            "run_timeout_s": "Run timeout (s)",
            "memory_mb": "Memory (MiB)",
        }
        help_texts: ClassVar = {
            "title": "Its name for people and agents.",
            "lane": "How long its jobs take. Workers of longer lanes stay longer.",
            "seed_default": "For calls without a seed. Equal ones share an answer if it is fixed.",
            "max_batch_size": "Jobs that the plugin may compute at once; 1: each alone.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for name, reason in settings_problems(cleaned).items():
            self.add_error(name, reason)
        return cleaned


class PriceForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    class Meta:
        model = Model
        fields = ["price"]

    def clean_price(self) -> Decimal:
        price: Decimal = self.cleaned_data["price"]
        if not 0 <= price <= MOST_PRICE:
            raise forms.ValidationError(f"A price is from 0 to {MOST_PRICE}.")
        return price


class AlternativeForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    def clean_instead(self) -> Model:
        instead: Model = self.cleaned_data["instead"]
        if instead.pk == self.instance.model_id:
            raise forms.ValidationError("A model is no alternative to itself.")
        return instead


class AlternativeInline(TabularInline):
    """What is offered where this model cannot serve a call, before others of its family."""

    model = Alternative
    form = AlternativeForm
    fk_name = "model"
    fields = ["place", "instead", "why"]
    extra = 0


@admin.register(Model)
class ModelSettingsAdmin(ModelAdmin):
    """What a GPU-second of a model costs, which attempts that end from now on go by, and
    which models may stand in for it."""

    form = PriceForm
    inlines = [AlternativeInline]
    list_display = ["name", "price", "created_at"]
    ordering = ["name"]
    search_fields = ["name"]
    fields = ["name", "price", "currency"]
    readonly_fields = ["name", "currency"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # `manage.py sync_models` makes models

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # jobs refer to it

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's signature
        obj.save(update_fields=["price"])

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:  # noqa: FBT001 - Django's signature
        super().save_related(request, form, formsets, change)
        transaction.on_commit(forget)

    @admin.display(description="currency")
    def currency(self, _model: Model) -> str:
        return str(settings.CURRENCY)


@admin.register(Revision)
class RevisionAdmin(ModelAdmin):
    form = SettingsForm
    list_display = ["model", "number", "badge", "title", "lane", "runtime", "published_at"]
    list_filter = ["state", "lane"]
    search_fields = ["model__name", "title"]
    list_select_related = ["model"]
    actions = ["set_live_selected", "retire_selected"]
    actions_detail = ["set_live", "retire"]
    readonly_fields = [
        "model",
        "number",
        "badge",
        "plugin",
        "weights_digest",
        "digest",
        "folder",
        "runtime",
        "inputs",
        "outputs",
        "changes",
        "published_at",
        "published_by",
        "retired_at",
    ]
    fieldsets = [
        (None, {"fields": ["model", "number", "badge"]}),
        ("Settings", {"fields": SETTINGS}),
        ("What changed since the live revision", {"fields": ["changes"]}),
        ("What the caller sends", {"fields": ["inputs"]}),
        ("What the model answers", {"fields": ["outputs"]}),
        ("Plugin", {"fields": ["plugin", "runtime", "folder", "digest", "weights_digest"]}),
        ("History", {"fields": ["published_at", "published_by", "retired_at"]}),
    ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # `manage.py sync_models` makes drafts

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # jobs refer to it

    def has_change_permission(self, request: HttpRequest, obj: Revision | None = None) -> bool:
        retired = obj is not None and obj.state == State.RETIRED
        return not retired and super().has_change_permission(request, obj)

    def has_set_live_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return _may(request) and _in_state(object_id, State.DRAFT, State.RETIRED)

    def has_retire_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return _may(request) and _in_state(object_id, State.LIVE)

    def save_model(self, request: HttpRequest, obj: Revision, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's signature
        super().save_model(request, obj, form, change)
        transaction.on_commit(forget)

    @display(description="State", label={"draft": "info", "live": "success", "retired": "warning"})
    def badge(self, revision: Revision) -> str:
        return revision.state

    @admin.display(description="manifest")
    def plugin(self, revision: Revision) -> SafeString:
        return pretty(revision.manifest)

    @admin.display(description="input schema")
    def inputs(self, revision: Revision) -> SafeString:
        return pretty(revision.input_schema)

    @admin.display(description="output schema")
    def outputs(self, revision: Revision) -> SafeString:
        return pretty(revision.output_schema)

    @admin.display(description="changes")
    def changes(self, revision: Revision) -> SafeString | str:
        live = revision.model.revisions.filter(state=State.LIVE).exclude(pk=revision.pk).first()
        if live is None:
            return "No other revision is live."
        difference = difflib.unified_diff(
            _reviewed(live), _reviewed(revision), str(live), str(revision), lineterm="", n=2
        )
        text = "\n".join(difference) or "Nothing but the plugin's code."
        return format_html('<pre style="white-space: pre-wrap">{}</pre>', text)

    @admin.action(description="Set the selected drafts live", permissions=["set_live"])
    def set_live_selected(self, request: HttpRequest, revisions: QuerySet[Revision]) -> None:
        for revision in revisions:
            self._publish(request, revision)

    @admin.action(description="Retire the selected revisions", permissions=["retire"])
    def retire_selected(self, request: HttpRequest, revisions: QuerySet[Revision]) -> None:
        for revision in revisions:
            self._retire(request, revision)

    @action(
        description="Set live",
        permissions=["set_live"],
        variant=ActionVariant.PRIMARY,
        dialog={
            "title": "Set this revision live",
            "description": "New jobs go to it at once. The revision before it is retired: its"
            " waiting jobs are still finished.",
            "form_class": None,
            "form_submit_text": "Set live",
        },
    )
    def set_live(self, request: HttpRequest, _form: forms.Form, object_id: str) -> HttpResponse:
        revision = Revision.objects.select_related("model").get(pk=object_id)
        self._publish(request, revision)
        return back_to(request, revision)

    @action(
        description="Retire",
        permissions=["retire"],
        variant=ActionVariant.DANGER,
        dialog={
            "title": "Retire this revision",
            "description": "The model takes no new jobs. Those that wait are still finished.",
            "form_class": None,
            "form_submit_text": "Retire",
        },
    )
    def retire(self, request: HttpRequest, _form: forms.Form, object_id: str) -> HttpResponse:
        revision = Revision.objects.select_related("model").get(pk=object_id)
        self._retire(request, revision)
        return back_to(request, revision)

    def _publish(self, request: HttpRequest, revision: Revision) -> None:
        before = revision.model.revisions.filter(state=State.LIVE).exclude(pk=revision.pk).first()
        try:
            publish(revision, by=request.user)  # type: ignore[arg-type]  # the admin has users only
        except RevisionNotPublishable as error:
            messages.error(request, error.message)
        else:
            self.log_change(request, revision, "Set live.")
            if before is not None:
                self.log_change(request, before, f"Retired: {revision} follows.")
            messages.success(request, f"{revision} is live.")

    def _retire(self, request: HttpRequest, revision: Revision) -> None:
        if retire(revision):
            self.log_change(request, revision, "Retired.")
            messages.success(request, f"{revision} is retired.")
        else:
            messages.error(request, f"{revision} is not live.")


def _may(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("catalog.change_revision"))


def _in_state(object_id: str | None, *states: State) -> bool:
    """Whether the page's revision is in one of the states; a list is asked about as a whole."""
    return is_among(Revision.objects.filter(state__in=states), object_id)


def _reviewed(revision: Revision) -> list[str]:
    """Everything a review looks at, as lines."""
    seen = {
        "settings": {name: getattr(revision, name) for name in SETTINGS},
        "manifest": revision.manifest,
        "input_schema": revision.input_schema,
        "output_schema": revision.output_schema,
    }
    return json.dumps(seen, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
