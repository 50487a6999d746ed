from __future__ import annotations

from django.apps import AppConfig
from django.core.signals import request_started


class ApiConfig(AppConfig):
    name = "foldline.api"
    verbose_name = "REST"

    def ready(self) -> None:
        from foldline.api.connections import close_if_dead

        request_started.connect(close_if_dead)
