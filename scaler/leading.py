"""Which scaler leads where there is no cluster to ask: the database says."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from django.db import DatabaseError

from foldline.clock import database_now
from foldline.jobs.leading import give_up, lead

DUTY = "scale"
SILENCE_S = 6.0
"""After which another one may lead; a round comes every two seconds."""


class Leader:
    """Call it before each round. Raises DatabaseError."""

    def __init__(self, *, name: str = "") -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"

    def __call__(self) -> bool:
        return lead(DUTY, name=self.name, now=database_now(), keep_s=SILENCE_S)

    def end(self) -> None:
        """Let the next one begin at once."""
        # A database that is away hears of it by the silence.
        with suppress(DatabaseError):
            give_up(DUTY, name=self.name)
