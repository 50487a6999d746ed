"""Why a waiting job does not run yet, in one word. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Blocked(StrEnum):
    ATTACHED = "attached"
    PAUSED = "paused"
    CRASH_LOOPING = "crash_looping"
    QUOTA = "quota"
    DEPENDENCY_DOWN = "dependency_down"
    RETRY_BACKOFF = "retry_backoff"
    RUNNING_LIMIT = "running_limit"
    MODEL_LOADING = "model_loading"
    FAIR_SHARE = "fair_share"
    NO_CAPACITY = "no_capacity"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known about a waiting job, its tenant, its model's queue and its revision's workers.

    `quota`: its tenant is switched off or its budget is used up. `running_limit`: its tenant's
    running jobs are as many as may be. `dependency_down`: it waits to be tried again because
    something its model needs did not answer. `overtaken`: a job that came later goes first.
    """

    attached: bool
    paused: bool
    crash_looping: bool
    quota: bool = False
    dependency_down: bool = False
    waits_for_retry: bool
    running_limit: bool = False
    overtaken: bool = False
    idle: int
    busy: int
    loading: int


def blocked_reason(facts: Facts) -> Blocked | None:
    """The reason that has to go first; None when an idle worker is about to take it."""
    reasons = {
        Blocked.ATTACHED: facts.attached,
        Blocked.PAUSED: facts.paused,
        Blocked.CRASH_LOOPING: facts.crash_looping,
        Blocked.QUOTA: facts.quota,
        Blocked.DEPENDENCY_DOWN: facts.dependency_down,
        Blocked.RETRY_BACKOFF: facts.waits_for_retry,
        Blocked.RUNNING_LIMIT: facts.running_limit,
        Blocked.MODEL_LOADING: facts.loading and not facts.idle and not facts.busy,
        Blocked.FAIR_SHARE: facts.overtaken and not facts.idle,
        Blocked.NO_CAPACITY: not facts.idle,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
