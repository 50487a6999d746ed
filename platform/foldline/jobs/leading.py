"""Duties that one process does at a time: who does, and how it passes to another."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from datetime import datetime, timedelta

from django.db import DatabaseError
from django.db.models import Q

from foldline.clock import database_now
from foldline.jobs.models import Leadership


class Leader:
    """A process that seeks a duty, and keeps it while it asks at least every `keep_s` seconds."""

    def __init__(self, duty: str, *, keep_s: float, name: str = "") -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._duty, self._keep_s = duty, keep_s

    def __call__(self) -> bool:
        """Whether it leads from now on. Raises DatabaseError."""
        return lead(self._duty, name=self.name, now=database_now(), keep_s=self._keep_s)

    def end(self) -> None:
        """Let the next one begin at once."""
        # A database that is away hears of it by the silence.
        with suppress(DatabaseError):
            Leadership.objects.filter(duty=self._duty, holder=self.name).delete()


def lead(duty: str, *, name: str, now: datetime, keep_s: float) -> bool:
    """Become or stay the one who does a duty; it passes when its holder is silent for `keep_s`."""
    until = now + timedelta(seconds=keep_s)
    mine = Leadership.objects.filter(Q(holder=name) | Q(until__lt=now), duty=duty)
    if mine.update(holder=name, until=until):
        return True
    defaults = {"holder": name, "until": until}
    _, created = Leadership.objects.get_or_create(duty=duty, defaults=defaults)
    return bool(created)
