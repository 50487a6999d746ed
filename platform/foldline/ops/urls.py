from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from django_prometheus.exports import ExportToDjangoView

from foldline.ops import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", ExportToDjangoView),
]
