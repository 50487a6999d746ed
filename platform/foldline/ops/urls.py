from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from foldline.ops import health
from foldline.ops.advice import advice
from foldline.ops.metrics import metrics

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics),
    path("scaling/v1/models/<str:model>", advice),
]
