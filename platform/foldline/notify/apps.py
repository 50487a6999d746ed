from __future__ import annotations

from django.apps import AppConfig


class NotifyConfig(AppConfig):
    name = "foldline.notify"
    verbose_name = "Telling callers"
