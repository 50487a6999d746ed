"""`manage.py notifier`: the process that tells callers of the ends of their jobs."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from foldline.notify.notifier import Notifier


class Command(BaseCommand):
    help = "Sends webhooks: the ends of jobs, to the endpoints of their tenants. Run one or more."

    def handle(self, **_options: Any) -> None:
        stop = threading.Event()
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda *_: stop.set())
        Notifier().run(stop)
