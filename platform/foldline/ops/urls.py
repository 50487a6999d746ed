from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from django_prometheus.exports import ExportToDjangoView

from foldline.ops import health
from foldline.ops.advice import advice

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", ExportToDjangoView),
    path("scaling/v1/models/<str:model>", advice),
]
