"""`manage.py forecaster`: the process that says how long it takes."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from foldline.forecasts.forecaster import Forecaster


class Command(BaseCommand):
    help = "Walks the lines: places, starts and ends of waiting jobs. Run one or more."

    def handle(self, **_options: Any) -> None:
        stop = threading.Event()
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda *_: stop.set())
        Forecaster().run(stop)
