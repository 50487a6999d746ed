"""Endpoints and deliveries in the admin. Secrets are never shown, sealed or not."""

from __future__ import annotations

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from foldline.errors import WebhookDisabled
from foldline.notify.deliveries import redeliver
from foldline.notify.endpoints import disable, enable
from foldline.notify.models import NOTE_CHARACTERS, Delivery, WebhookEndpoint
from foldline.tenants.dialogs import back_to, is_among
from foldline.tenants.readonly import ReadOnlyAdmin, pretty

SHOWN_CHARACTERS = 45


class DisableForm(BaseDialogForm):
    reason = forms.CharField(
        max_length=NOTE_CHARACTERS,
        widget=UnfoldAdminTextInputWidget,
        help_text="Shown to its tenant.",
    )


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(ReadOnlyAdmin):
    list_display = [
        *("address", "tenant", "badge", "disabled_reason", "failures", "failing_since"),
        *("paused_until", "answered_at"),
    ]
    list_filter = ["tenant", "all_jobs"]
    list_select_related = ["tenant"]
    search_fields = ["url", "id"]
    ordering = ["-id"]
    actions_detail = ["disable_this", "enable_this"]
    fields = [
        *("tenant", "url", "description", "badge", "disabled_reason", "disabled_at", "deleted_at"),
        *("events", "all_jobs", "failures", "failing_since", "paused_until", "answered_at"),
        *("old_secret_until", "created_at"),
    ]
    readonly_fields = fields

    @admin.display(description="URL", ordering="url")
    def address(self, endpoint: WebhookEndpoint) -> str:
        return _short(endpoint.url)

    def has_disable_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return self._may(request) and is_among(_working(), object_id)

    def has_enable_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        off = WebhookEndpoint.objects.filter(disabled_at__isnull=False, deleted_at=None)
        return self._may(request) and is_among(off, object_id)

    def _may(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("notify.change_webhookendpoint"))

    @display(
        description="State",
        label={"well": "success", "failing": "warning", "disabled": "danger", "deleted": "info"},
    )
    def badge(self, endpoint: WebhookEndpoint) -> str:
        if endpoint.deleted_at:
            return "deleted"
        if endpoint.disabled_at:
            return "disabled"
        return "failing" if endpoint.failures else "well"

    @action(
        description="Disable",
        permissions=["disable"],
        variant=ActionVariant.DANGER,
        dialog={
            "title": "Disable this endpoint",
            "description": "Nothing more is sent to it, and what waits for it is dropped.",
            "form_class": DisableForm,
            "form_submit_text": "Disable",
        },
    )
    def disable_this(self, request: HttpRequest, form: DisableForm, object_id: str) -> HttpResponse:
        endpoint = WebhookEndpoint.objects.get(pk=object_id)
        reason = form.cleaned_data["reason"]
        if disable(endpoint.pk, reason=reason):
            self.log_change(request, endpoint, f"Disabled: {reason}")
        messages.success(request, f"{endpoint} is disabled.")
        return back_to(request, endpoint)

    @action(
        description="Enable",
        permissions=["enable"],
        variant=ActionVariant.PRIMARY,
        dialog={
            "title": "Enable this endpoint",
            "description": "It is sent to again. What was dropped stays so.",
            "form_class": None,
            "form_submit_text": "Enable",
        },
    )
    def enable_this(self, request: HttpRequest, _form: forms.Form, object_id: str) -> HttpResponse:
        endpoint = WebhookEndpoint.objects.get(pk=object_id)
        enable(endpoint.pk)
        self.log_change(request, endpoint, "Enabled.")
        messages.success(request, f"{endpoint} is enabled.")
        return back_to(request, endpoint)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ["id", "type", "address", "badge", "note", "attempts", "last", "next_at"]
    list_filter = ["state", "type", "endpoint__tenant"]
    list_select_related = ["endpoint"]
    list_defers = ("body",)
    search_fields = ["id", "event", "job_id"]
    ordering = ["-id"]
    show_full_result_count = False
    actions = ["redeliver_selected"]
    actions_detail = ["redeliver_this"]
    fields = [
        *("endpoint", "type", "event", "job_id", "badge", "note", "attempts", "next_at"),
        *("created_at", "ended_at", "body", "all_tries"),
    ]
    readonly_fields = fields

    @admin.display(description="endpoint", ordering="endpoint__url")
    def address(self, delivery: Delivery) -> str:
        return _short(delivery.endpoint.url)

    def has_redeliver_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        may = bool(request.user.has_perm("notify.change_delivery"))
        return may and is_among(Delivery.objects.filter(endpoint__in=_working()), object_id)

    @display(
        description="State",
        label={"delivered": "success", "waiting": "info", "dead": "danger", "dropped": "warning"},
    )
    def badge(self, delivery: Delivery) -> str:
        return str(delivery.state)

    @admin.display(description="last try")
    def last(self, delivery: Delivery) -> str:
        if not delivery.tries:
            return ""
        told = delivery.tries[-1]
        return told["error"] or f"{told['status']} after {told['ms']} ms"

    @admin.display(description="tries")
    def all_tries(self, delivery: Delivery) -> SafeString:
        return pretty(delivery.tries)

    @admin.action(description="Send the selected messages again", permissions=["redeliver"])
    def redeliver_selected(self, request: HttpRequest, rows: QuerySet[Delivery]) -> None:
        sent = sum(self._redeliver(request, row) for row in rows.select_related("endpoint"))
        messages.success(request, f"Messages sent again: {sent}.")

    @action(
        description="Send again",
        permissions=["redeliver"],
        variant=ActionVariant.PRIMARY,
        dialog={
            "title": "Send this message again",
            "description": "Now, and with all its tries. Its receiver knows it by its event.",
            "form_class": None,
            "form_submit_text": "Send",
        },
    )
    def redeliver_this(
        self, request: HttpRequest, _form: forms.Form, object_id: str
    ) -> HttpResponse:
        delivery = Delivery.objects.select_related("endpoint").get(pk=object_id)
        if self._redeliver(request, delivery):
            messages.success(request, f"{delivery} is sent again.")
        return back_to(request, delivery)

    def _redeliver(self, request: HttpRequest, delivery: Delivery) -> bool:
        try:
            redeliver(delivery)
        except WebhookDisabled as error:
            messages.error(request, f"{delivery.endpoint}: {error.message}")
            return False
        self.log_change(request, delivery, "Sent again.")
        return True


def _short(url: str) -> str:
    """As much of it as leaves a list its other columns."""
    return url if len(url) <= SHOWN_CHARACTERS else f"{url[: SHOWN_CHARACTERS - 1]}…"


def _working() -> QuerySet[WebhookEndpoint]:
    return WebhookEndpoint.objects.filter(disabled_at=None, deleted_at=None)
