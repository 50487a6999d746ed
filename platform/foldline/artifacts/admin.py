from __future__ import annotations

from django.contrib import admin

from foldline.artifacts.models import Artifact
from foldline.tenants.readonly import ReadOnlyAdmin


@admin.register(Artifact)
class ArtifactAdmin(ReadOnlyAdmin):
    list_display = ["name", "tenant", "media_type", "size", "sha256", "created_at"]
    list_filter = ["tenant"]
    search_fields = ["name", "sha256"]
    list_select_related = ["tenant"]
