from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("v1/", include("foldline.api.urls")),
    path("admin/", admin.site.urls),
    path("", include("foldline.ops.urls")),
]
