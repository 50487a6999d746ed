"""`manage.py forecaster`: the process that says how long it takes."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from foldline.forecasts.forecaster import Forecaster
from foldline.stopping import stop_event


class Command(BaseCommand):
    help = "Walks the lines: places, starts and ends of waiting jobs. Run one or more."

    def handle(self, **_options: Any) -> None:
        Forecaster().run(stop_event())
