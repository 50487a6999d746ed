"""`manage.py sweeper`: the process that watches leases, expiry and tickets."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from foldline.jobs.sweeper import Sweeper


class Command(BaseCommand):
    help = "Watches over jobs: lost leases, expired jobs, missing tickets. Run one or more."

    def handle(self, **_options: Any) -> None:
        stop = threading.Event()
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda *_: stop.set())
        Sweeper().run(stop)
