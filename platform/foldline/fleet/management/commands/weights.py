"""`manage.py weights MODEL[@rN]`: read every weight file of a revision here, and check its hash.

Run on a node before a worker comes, it has the image there, the files in the page cache, and
tells an admin what is wrong. Exit code 1: they are not the reviewed ones.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from foldline.fleet.services import NoRevision, assignment, named
from foldline.fleet.weights_ahead import read_ahead


class Command(BaseCommand):
    help = "Read the weights of a model's revision on this machine, and check their hashes."

    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("revision", help="MODEL, or MODEL@r2")

    def handle(self, *, revision: str, **_options: Any) -> None:
        try:
            model, number = named(revision)
            found = assignment(model, number=number)
        except NoRevision as error:
            raise CommandError(f"{revision} has no live revision. {NoRevision.__doc__}") from error
        # In a pod the host's name is the pod's.
        node = os.environ.get("FOLDLINE_NODE") or socket.gethostname()
        ahead = read_ahead(found, node=node)
        if ahead.trouble:
            raise CommandError(ahead.trouble)
        self.stdout.write(
            f"{revision}: {ahead.size_bytes / 1e6:.1f} MB of weights are on {node} and as"
            f" reviewed; read in {ahead.seconds:.2f} s"
        )
