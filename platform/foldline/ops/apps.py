from __future__ import annotations

from django.apps import AppConfig


class OpsConfig(AppConfig):
    name = "foldline.ops"
    verbose_name = "Operations"

    def ready(self) -> None:
        from foldline.ops import checks  # noqa: F401 - importing it registers them
