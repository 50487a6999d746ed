from __future__ import annotations

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "foldline.catalog"
    verbose_name = "Models"
