"""`manage.py seed_demo`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from foldline.ops.demo_data import seed


class Command(BaseCommand):
    help = "Make the demo tenant, its key and an admin, and set the built-in models live."

    def handle(self, **_options: Any) -> None:
        seed(say=self.stdout.write)
