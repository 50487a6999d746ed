"""Tenants in the admin. Here, because what a tenant uses is known in rooms above `tenants`."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from foldline.ops import scaling_admin  # noqa: F401 - importing it registers its page
from foldline.ops.use import COUNTED, OF_WHOLE, use_beside_limits
from foldline.tenants.models import Tenant


class TenantForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    class Meta:
        model = Tenant
        fields = ("slug", "name", "active")
        help_texts: ClassVar = {"slug": "A short name, which the ledger and the log tell it by."}


@admin.register(Tenant)
class TenantAdmin(ModelAdmin):
    form = TenantForm
    list_display = ["slug", "name", "active", "created_at"]
    list_filter = ["active"]
    search_fields = ["slug", "name"]
    ordering = ["slug"]
    readonly_fields = ["use", "use_with_links"]

    def get_fields(self, request: HttpRequest, obj: Tenant | None = None) -> list[str]:
        may_set = request.user.has_perms(["tenants.add_quota", "tenants.change_quota"])
        use = "use_with_links" if may_set else "use"
        return ["slug", "name", "active", *([use] if obj else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Deleting would take every job and file along; a tenant is switched off instead.
        return False

    @admin.display(description="use beside limit")
    def use(self, tenant: Tenant) -> SafeString:
        return _use(tenant, may_set=False)

    @admin.display(description="use beside limit")
    def use_with_links(self, tenant: Tenant) -> SafeString:
        return _use(tenant, may_set=True)


def _use(tenant: Tenant, *, may_set: bool) -> SafeString:
    context = {
        "tenant": tenant,
        "lines": use_beside_limits(tenant.pk),
        "headings": [*COUNTED.values(), *OF_WHOLE.values()],
        "may_set": may_set,
    }
    return render_to_string("admin/tenants/use.html", context)
