"""`manage.py sweeper`: the process that watches leases, expiry and tickets."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from foldline.jobs.sweeper import Sweeper
from foldline.stopping import stop_event


class Command(BaseCommand):
    help = "Watches over jobs: lost leases, expired jobs, missing tickets. Run one or more."

    def handle(self, **_options: Any) -> None:
        Sweeper().run(stop_event())
