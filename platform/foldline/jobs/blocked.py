"""Why a waiting job does not run yet, in one word. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Blocked(StrEnum):
    ATTACHED = "attached"
    PAUSED = "paused"
    CRASH_LOOPING = "crash_looping"
    RETRY_BACKOFF = "retry_backoff"
    MODEL_LOADING = "model_loading"
    NO_CAPACITY = "no_capacity"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known about a waiting job, its model's queue and its revision's workers."""

    attached: bool
    paused: bool
    crash_looping: bool
    waits_for_retry: bool
    idle: int
    busy: int
    loading: int


def blocked_reason(facts: Facts) -> Blocked | None:
    """The reason that has to go first; None when an idle worker is about to take it."""
    reasons = {
        Blocked.ATTACHED: facts.attached,
        Blocked.PAUSED: facts.paused,
        Blocked.CRASH_LOOPING: facts.crash_looping,
        Blocked.RETRY_BACKOFF: facts.waits_for_retry,
        Blocked.MODEL_LOADING: facts.loading and not facts.idle and not facts.busy,
        Blocked.NO_CAPACITY: not facts.idle,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
