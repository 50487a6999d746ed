"""Users, groups, tenants and their keys in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from foldline.tenants.dialogs import back_to
from foldline.tenants.models import ApiKey, Tenant, User
from foldline.tenants.services import issue_key, revoke_key

admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]  # generic in the stubs only
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    pass


@admin.register(Tenant)
class TenantAdmin(ModelAdmin):
    list_display = ["slug", "name", "active", "created_at"]
    list_filter = ["active"]
    search_fields = ["slug", "name"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Deleting would take every job and file along; a tenant is switched off instead.
        return False


class NewKeyForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    scopes = forms.MultipleChoiceField(
        choices=ApiKey.Scope.choices,
        initial=ApiKey.Scope.values,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )

    class Meta:
        model = ApiKey
        fields = ["tenant", "name", "scopes", "expires_at"]


@admin.register(ApiKey)
class ApiKeyAdmin(ModelAdmin):
    """A key is made, shown once, and revoked; nothing about it can be changed."""

    list_display = ["name", "tenant", "prefix", "state", "last_used_at", "expires_at"]
    list_filter = ["tenant"]
    search_fields = ["name", "prefix"]
    form = NewKeyForm
    actions = ["revoke_selected"]
    actions_detail = ["revoke"]

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
        return bool(request.user.has_perm("tenants.change_apikey"))

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's signature
        issued, plaintext = issue_key(
            obj.tenant,
            name=obj.name,
            scopes=form.cleaned_data["scopes"],
            expires_at=obj.expires_at,
        )
        # The form's own object was never stored; the admin goes on with the one that was.
        obj.__dict__.update(issued.__dict__)
        messages.warning(request, f"Copy the key now, it is shown only this once: {plaintext}")

    @display(description="State", label={"active": "success", "revoked": "danger"})
    def state(self, key: ApiKey) -> str:
        return "revoked" if key.revoked_at else "active"

    @admin.action(description="Revoke the selected keys", permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        revoked = [key for key in keys if revoke_key(key)]
        for key in revoked:
            self.log_change(request, key, "Revoked.")
        messages.success(request, f"{len(revoked)} keys are revoked.")

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
