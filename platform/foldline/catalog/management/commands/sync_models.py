"""`manage.py sync_models`: read the plugin folders into drafts."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from foldline.catalog.services import SyncReport, sync
from model_plugins.registry import BUILTIN_ROOT, discover


class Command(BaseCommand):
    help = "Make a draft of every model plugin that is new or has changed."

    def handle(self, *args: Any, **options: Any) -> None:
        report = sync(
            discover([BUILTIN_ROOT, *settings.PLUGIN_DIRS], site_packages=_site_packages())
        )
        self._print(report)
        if report.refused:
            raise CommandError(f"{len(report.refused)} of the plugins were refused.")

    def _print(self, report: SyncReport) -> None:
        width = max((len(outcome.name) for outcome in report.outcomes), default=0)
        for outcome in report.outcomes:
            revision = f"r{outcome.revision}" if outcome.revision else "-"
            self.stdout.write(
                f"{outcome.name:<{width}}  {revision:<5} {outcome.outcome:<9} {outcome.reason}"
            )


def _site_packages() -> list[Path]:
    """Where installed plugins may announce themselves: our environment and every runtime."""
    runtimes = sorted((settings.HOME / "runtimes").glob("*/lib/python*/site-packages"))
    return [Path(sysconfig.get_path("purelib")), *runtimes]
