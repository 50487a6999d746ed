"""`manage.py runtime list | install NAME | remove NAME`."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from foldline.fleet import runtimes
from foldline.fleet.packages import RuntimeTrouble


class Command(BaseCommand):
    help = "The Python environments that the model plugins run in."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every runtime, and whether it is installed")
        for action, help_text in (
            ("install", "make it, or bring it up to date"),
            ("remove", "delete its environment"),
        ):
            actions.add_parser(action, help=help_text).add_argument("name")

    def handle(self, *, action: str, **options: Any) -> None:
        try:
            getattr(self, f"_{action}")(**options)
        except RuntimeTrouble as trouble:
            raise CommandError(str(trouble)) from trouble
        except KeyboardInterrupt:
            self.stderr.write("Stopped. Nothing is broken: the same command begins it anew.")
            sys.exit(130)

    def _list(self, **_options: Any) -> None:
        for name, runtime in sorted(runtimes.runtimes().items()):
            models = ", ".join(plugin.name for plugin in runtime.plugins)
            self.stdout.write(f"{name:<16} {_state(runtime):<13} {models}")

    def _install(self, *, name: str, **_options: Any) -> None:
        runtimes.install(name, say=self.stdout.write)

    def _remove(self, *, name: str, **_options: Any) -> None:
        removed = runtimes.remove(name)
        self.stdout.write(f"runtime {name}: {'removed' if removed else 'was not installed'}")


def _state(runtime: runtimes.Runtime) -> str:
    if runtime.is_current:
        return "installed"
    return "out of date" if runtimes.stamp_of(runtime.folder) else "not installed"
