"""`manage.py up`: Foldline on this machine, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from foldline.ops.output import Output
from foldline.ops.session import Run, run
from foldline.ops.supervisor import BEAT_S, Supervisor


class Command(BaseCommand):
    help = "Start and watch Redis, gateway, its companions, scaler and Flower on this machine."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--demo",
            action="store_true",
            help="also the built-in models, live, and a tenant `demo` with a key",
        )

    def handle(self, *, demo: bool, **_options: Any) -> None:
        sys.exit(run(Run(demo=demo, echo=True, worker_grace_s=None), then=stay))


def stay(supervisor: Supervisor, output: Output) -> int:
    """Watch until interrupted."""
    output.say(f"up: {settings.BASE_URL}/ (admin: {settings.BASE_URL}/admin/)")
    output.say(f"Flower: http://127.0.0.1:{settings.FLOWER_PORT}/ (user `ops`)")
    output.say(
        f"Workers come with the first job of their model, {settings.LOCAL_WORKERS} at most at once,"
        " and go when they are idle."
    )
    output.say("Ctrl-C stops everything; running jobs are finished first.")
    while True:
        supervisor.beat()
        time.sleep(BEAT_S)
