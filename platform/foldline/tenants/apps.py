from __future__ import annotations

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "foldline.tenants"
    verbose_name = "Who asks"
