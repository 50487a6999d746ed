from __future__ import annotations

from django.apps import AppConfig


class ForecastsConfig(AppConfig):
    name = "foldline.forecasts"
    verbose_name = "How long it takes"
