"""`manage.py notifier`: the process that tells callers of the ends of their jobs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from foldline.notify.notifier import Notifier
from foldline.stopping import stop_event


class Command(BaseCommand):
    help = "Sends webhooks: the ends of jobs, to the endpoints of their tenants. Run one or more."

    def handle(self, **_options: Any) -> None:
        Notifier().run(stop_event())
