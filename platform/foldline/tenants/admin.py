"""Users, groups, keys, quotas and the audit in the admin. Tenants: `foldline.ops.admin`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.forms import (
    AdminPasswordChangeForm,
    BaseDialogForm,
    UserChangeForm,
    UserCreationForm,
)
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminIntegerFieldWidget

from foldline.errors import KeyRotation
from foldline.tenants.dialogs import back_to, is_among
from foldline.tenants.ledger_admin import LedgerAdmin
from foldline.tenants.models import ApiKey, AuditEntry, User
from foldline.tenants.quota_admin import QuotaAdmin
from foldline.tenants.readonly import ReadOnlyAdmin, pretty
from foldline.tenants.services import OVERLAP, active_keys, issue_key, revoke_key, rotate_key

__all__ = ["ApiKeyAdmin", "AuditEntryAdmin", "GroupAdmin", "LedgerAdmin", "QuotaAdmin", "UserAdmin"]

MOST_OVERLAP_H = 30 * 24

admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]  # generic in the stubs only
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    pass


class NewKeyForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    scopes = forms.MultipleChoiceField(
        choices=ApiKey.Scope.choices,
        initial=ApiKey.Scope.values,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )

    class Meta:
        model = ApiKey
        fields = ["tenant", "name", "scopes", "expires_at"]
        help_texts: ClassVar = {
            "name": "Who or what will carry it, to know it again.",
            "expires_at": "Empty: never.",
        }


class RotateForm(BaseDialogForm):
    overlap_h = forms.IntegerField(
        label="Hours the old key still works",
        min_value=0,
        max_value=MOST_OVERLAP_H,
        initial=OVERLAP // timedelta(hours=1),
        widget=UnfoldAdminIntegerFieldWidget,
    )


@admin.register(ApiKey)
class ApiKeyAdmin(ModelAdmin):
    """A key is made, shown once, rotated and revoked; nothing about it can be changed."""

    list_display = ["name", "tenant", "prefix", "state", "last_used_at", "expires_at"]
    list_filter = ["tenant"]
    search_fields = ["name", "prefix"]
    form = NewKeyForm
    actions = ["revoke_selected"]
    actions_detail = ["rotate", "revoke"]

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        if obj is None:
            return ["tenant", "name", "scopes", "expires_at"]
        return [
            "tenant",
            "name",
            "prefix",
            "scopes",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
        ]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return _may(request) and is_among(ApiKey.objects.filter(revoked_at=None), object_id)

    def has_rotate_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return _may(request) and is_among(active_keys(), object_id)

    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            shown: HttpResponse = super().add_view(request, *args, **kwargs)
        except KeyRotation as error:
            messages.error(request, error.message)
            return HttpResponseRedirect(request.get_full_path())
        return shown

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's signature
        issued, plaintext = issue_key(
            obj.tenant,
            name=obj.name,
            scopes=form.cleaned_data["scopes"],
            expires_at=obj.expires_at,
        )
        # The form's own object was never stored; the admin goes on with the one that was.
        obj.__dict__.update(issued.__dict__)
        _show(request, plaintext)

    @display(
        description="State",
        label={"active": "success", "expired": "warning", "revoked": "danger"},
    )
    def state(self, key: ApiKey) -> str:
        if key.revoked_at:
            return "revoked"
        return "expired" if key.expires_at and key.expires_at <= timezone.now() else "active"

    @action(
        description="Rotate",
        permissions=["rotate"],
        dialog={
            "title": "Rotate this key",
            "description": "A new key of the same name, scopes and lifetime is made and shown"
            " once. The old one ends after the hours below.",
            "form_class": RotateForm,
            "form_submit_text": "Rotate",
        },
    )
    def rotate(self, request: HttpRequest, form: RotateForm, object_id: str) -> HttpResponse:
        key = ApiKey.objects.get(pk=object_id)
        try:
            made, plaintext = rotate_key(
                key, overlap=timedelta(hours=form.cleaned_data["overlap_h"])
            )
        except KeyRotation as error:
            messages.error(request, error.message)
            return back_to(request, key)
        self.log_change(request, key, f"Rotated: {made} follows.")
        _show(request, plaintext)
        return back_to(request, made)

    @admin.action(description="Revoke the selected keys", permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        revoked = [key for key in keys if revoke_key(key)]
        for key in revoked:
            self.log_change(request, key, "Revoked.")
        messages.success(request, f"Keys revoked: {len(revoked)}.")

    @action(
        description="Revoke",
        permissions=["revoke"],
        variant=ActionVariant.DANGER,
        dialog={
            "title": "Revoke this key",
            "description": "Whoever uses it is refused within five seconds, for good.",
            "form_class": None,
            "form_submit_text": "Revoke",
        },
    )
    def revoke(self, request: HttpRequest, _form: forms.Form, object_id: str) -> HttpResponse:
        key = ApiKey.objects.get(pk=object_id)
        if revoke_key(key):
            self.log_change(request, key, "Revoked.")
        messages.success(request, f"{key} is revoked.")
        return back_to(request, key)


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["at", "actor", "action", "kind", "label", "fields_changed"]
    list_filter = ["action", "kind"]
    search_fields = ["actor", "object_id", "label"]
    date_hierarchy = "at"
    fields = ["at", "actor", "action", "kind", "object_id", "label", "before_and_after"]
    readonly_fields = fields

    @admin.display(description="changed")
    def fields_changed(self, entry: AuditEntry) -> str:
        return ", ".join(entry.changes)

    @admin.display(description="before and after")
    def before_and_after(self, entry: AuditEntry) -> SafeString:
        return pretty(entry.changes)


def _may(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("tenants.change_apikey"))


def _show(request: HttpRequest, plaintext: str) -> None:
    messages.warning(request, f"Copy the key now, it is shown only this once: {plaintext}")
