"""Which live models would let a call wait with no end in sight, and why.

Read for callers that would rather not wait, and where alternatives are named; never for a
plain submit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from foldline.catalog.alternatives import shelf
from foldline.catalog.selectors import LiveModel
from foldline.fleet.policies import Wish, wishes
from foldline.fleet.services import workers_by_state
from foldline.fresh import Fresh
from foldline.jobs.breaker import Breaker, Cause, read
from foldline.jobs.models import QueueState

SERVING = ("ready", "busy")


class Away(StrEnum):
    PAUSED = "paused"
    CRASH_LOOPING = "crash_looping"
    NO_WORKERS = "no_workers"


@dataclass(frozen=True, kw_only=True)
class Absence:
    """Why a model takes no work. `until`: when it is tried again, if that is known."""

    reason: Away
    message: str
    until: datetime | None = None


absences_kept: Fresh[None, Mapping[UUID, Absence]] = Fresh()


def absence_of(model: LiveModel) -> Absence | None:
    """None for a model that takes work, be it after a load. At most two seconds old."""
    return absences_kept.get(None, _read).get(model.revision_id)


def _read() -> Mapping[UUID, Absence]:
    """Of every live revision that is away. Three queries."""
    live = list(shelf().live.values())
    queues = QueueState.objects.in_bulk([model.model_id for model in live])
    wished = wishes([model.model_id for model in live])
    workers = workers_by_state([model.revision_id for model in live])
    found = {}
    for model in live:
        serves = any(workers[model.revision_id].get(state) for state in SERVING)
        queue = queues.get(model.model_id)
        absence = _absence(
            queue.paused if queue else "",
            read(queue.breaker if queue else None).about(str(model.revision_id)),
            wished[model.model_id],
            serves=serves,
        )
        if absence is not None:
            found[model.revision_id] = absence
    return found


def _absence(paused: str, breaker: Breaker, wish: Wish, *, serves: bool) -> Absence | None:
    if paused:
        return Absence(reason=Away.PAUSED, message=f"It is paused: {paused.rstrip('.')}.")
    # A worker that is loaded serves, however many others cannot start.
    if breaker.cause is Cause.CRASHES or (breaker.cause is Cause.STARTS and not serves):
        # The breaker's own reason may quote a traceback, which is for admins.
        message = f"It fails again and again ({breaker.cause}) and is tried from time to time."
        return Absence(reason=Away.CRASH_LOOPING, message=message, until=breaker.trial_at)
    if wish.most == 0 and not serves:
        return Absence(reason=Away.NO_WORKERS, message="It is given no workers at present.")
    return None
