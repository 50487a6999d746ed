"""`manage.py redrive --model M [--code C] [--yes]`: compute dead letters once more."""

from __future__ import annotations

from getpass import getuser
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from foldline.jobs.redrive import dead_letters, piles, redrive

MOST_REASONS = 10


class Command(BaseCommand):
    help = "Counts a model's dead letters, and with --yes has them computed once more."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True)
        parser.add_argument("--code", default="", help="only those that failed with this code")
        parser.add_argument("--yes", action="store_true", help="do it, not only count")

    def handle(self, *, model: str, code: str, yes: bool, **_options: Any) -> None:
        jobs = dead_letters(model=model, code=code)
        found = piles(jobs)
        for pile in found:
            self.stdout.write(f"{pile.count:6d}  {pile.model}  {pile.code}")
        if not found:
            self.stdout.write(f"No dead letters of {model}{f' with code {code}' if code else ''}.")
            return
        if not yes:
            self.stdout.write("Nothing was changed. Add --yes to redrive them.")
            return
        done = redrive(list(jobs.values_list("id", flat=True)), by=f"manage.py ({getuser()})")
        self.stdout.write(f"{len(done.made)} new jobs, {len(done.refused)} refused.")
        for job_id, reason in list(done.refused.items())[:MOST_REASONS]:
            self.stdout.write(f"{job_id}: {reason}")
        if done.refused and not done.made:
            raise CommandError("None could be redriven.")
