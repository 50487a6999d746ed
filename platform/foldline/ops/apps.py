from __future__ import annotations

from django.apps import AppConfig


class OpsConfig(AppConfig):
    name = "foldline.ops"
    verbose_name = "Operations"
