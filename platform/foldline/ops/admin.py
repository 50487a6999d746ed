"""Tenants in the admin. Here, because what a tenant uses is known in rooms above `tenants`."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from foldline.ops import scaling_admin  # noqa: F401 - importing it registers its page
from foldline.ops.use import COUNTED, OF_WHOLE, use_beside_limits
from foldline.tenants.models import Tenant


@admin.register(Tenant)
class TenantAdmin(ModelAdmin):
    list_display = ["slug", "name", "active", "created_at"]
    list_filter = ["active"]
    search_fields = ["slug", "name"]
    readonly_fields = ["use"]

    def get_fields(self, request: HttpRequest, obj: Tenant | None = None) -> list[str]:
        return ["slug", "name", "active", *(["use"] if obj else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Deleting would take every job and file along; a tenant is switched off instead.
        return False

    @admin.display(description="use beside limit")
    def use(self, tenant: Tenant) -> SafeString:
        return render_to_string(
            "admin/tenants/use.html",
            {
                "tenant": tenant,
                "lines": use_beside_limits(tenant.pk),
                "headings": [*COUNTED.values(), *OF_WHOLE.values()],
            },
        )
