from __future__ import annotations

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "foldline.tenants"
    verbose_name = "Who asks"

    def ready(self) -> None:
        from foldline.tenants import audit  # its tables are known only now

        audit.listen()
