"""Faults that end nothing: a part of a round that fails is told, counted and passed over.

Processes that work in rounds meet rows that nobody thought of, a Redis of another kind, a disk
that is full. One row must not keep them from all others, round after round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from django.db import (
    DatabaseError,
    InterfaceError,
    InternalError,
    OperationalError,
    transaction,
)
from django.db.models import F

from foldline.clock import database_now
from foldline.fresh import Fresh
from foldline.jobs.models import Fault

log = logging.getLogger(__name__)

T = TypeVar("T")

DATABASE_AWAY = (OperationalError, InterfaceError, InternalError)
"""The whole round's: without a database no part of it can be done, nor with one that only reads, as
PostgreSQL does on a standby (an InternalError). Other errors of the database are of a row."""
TELL_AGAIN_S = 60.0
_told: Fresh[tuple[str, str], bool] = Fresh(keep_s=TELL_AGAIN_S)


def contained(part: str, act: Callable[[], T], *, otherwise: T, of: object = "") -> T:
    """What `act` gives; when it fails, `otherwise`, and the fault is noted. `of`: the row.

    Raises DATABASE_AWAY only.
    """
    try:
        return act()
    except DATABASE_AWAY:
        raise
    except Exception as error:
        note(part, error, of=of)
        return otherwise


def note(part: str, error: Exception, *, of: object = "") -> None:
    """Tell a fault in the log, the same one once a minute, and count it."""

    def tell() -> bool:
        log.error("a part of a round failed", exc_info=error, extra={"part": part, "of": str(of)})
        return True

    _told.get((part, str(of)), tell)
    words = f"{type(error).__name__}: {error}{f' ({of})' if of else ''}"
    # Neither half a character nor NUL is text to a database.
    words = words.encode(errors="backslashreplace").decode().replace("\0", "")
    try:
        _count(part, words)
    except DatabaseError as away:
        log.warning("a fault was not counted", extra={"part": part, "reason": str(away)})


def _count(part: str, words: str) -> None:
    said = {"last_at": database_now(), "words": words[: Fault.WORDS]}
    with transaction.atomic():
        fault, _ = Fault.objects.get_or_create(part=part, defaults=said)
        Fault.objects.filter(pk=fault.pk).update(times=F("times") + 1, **said)
