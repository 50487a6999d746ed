"""What an answer says of the wait: place, times, when to ask again, and the same in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from foldline.catalog.models import Lane
from foldline.forecasts.prospects import Prospect
from foldline.jobs.blocked import Blocked

Body = dict[str, Any]

POLL_AFTER_S = {Lane.ONLINE: 1, Lane.LONG: 5, Lane.BULK: 15}
HELD_POLL_S = 15
MOST_POLL_S = 60

_SOON_S, _MINUTE_S, _HOUR_S = 10, 60, 3600
_WORDS = {
    Blocked.ATTACHED: "an equal call is computed",
    Blocked.PAUSED: "model is paused",
    Blocked.CRASH_LOOPING: "model keeps crashing",
    Blocked.RETRY_BACKOFF: "it is tried again soon",
    Blocked.MODEL_LOADING: "model is loading",
    Blocked.NO_CAPACITY: "no worker is free",
    Blocked.QUOTA: "your quota is used up",
    Blocked.DEPENDENCY_DOWN: "something the model needs does not answer",
    Blocked.RUNNING_LIMIT: "as many of your jobs run as may",
    Blocked.FAIR_SHARE: "jobs of others go first",
}


def wait_body(
    prospect: Prospect,
    *,
    blocked: Blocked | None,
    alternatives: Sequence[Mapping[str, str]],
    now: datetime,
) -> Body:
    """The members `queue`, `eta` and `cold_start` of a job."""
    return {
        "queue": {
            "position": prospect.position,
            "ahead_gpu_s": prospect.ahead_gpu_s,
            "blocked_reason": blocked,
            "reason": prospect.reason,
            "message": in_words(prospect, blocked=blocked, now=now),
            "alternatives": alternatives,
        },
        "eta": {
            "start_p50": prospect.start_p50,
            "start_p90": prospect.start_p90,
            "finish_p50": prospect.finish_p50,
            "finish_p90": prospect.finish_p90,
            "basis": prospect.basis,
            "as_of": prospect.as_of,
        },
        "cold_start": {
            "expected": prospect.cold,
            "p50_s": prospect.cold_p50_s,
            "p90_s": prospect.cold_p90_s,
        },
    }


def in_words(prospect: Prospect, *, blocked: Blocked | None, now: datetime) -> str | None:
    """Such as "8 ahead, about 4 min, model is loading"; None when it does not wait."""
    parts = []
    if prospect.position is not None:
        parts.append(f"{prospect.position - 1} ahead" if prospect.position > 1 else "next")
    if prospect.start_p50 is not None:
        parts.append(_span((prospect.start_p50 - now).total_seconds()))
    # A worker that is not free says nothing that the time until one is does not.
    if blocked is not None and not (blocked is Blocked.NO_CAPACITY and prospect.start_p50):
        parts.append(_WORDS[blocked])
    return ", ".join(parts) or None


def _span(seconds: float) -> str:
    if seconds < _SOON_S:
        return "a few seconds"
    if seconds < 1.5 * _MINUTE_S:
        return f"about {round(seconds, -1):.0f} s"
    if seconds < 1.5 * _HOUR_S:
        return f"about {seconds / _MINUTE_S:.0f} min"
    return f"about {seconds / _HOUR_S:.0f} h"


def poll_after_s(lane: str, prospect: Prospect, *, now: datetime) -> int:
    """Seconds after which asking again makes sense: half of what is left, at least the lane's
    value, and never more than a minute. A job whose turn nobody can tell (its model is paused, a
    limit holds it) is asked for now and then."""
    least = POLL_AFTER_S[Lane(lane)]
    if prospect.finish_p50 is None:
        return max(least, HELD_POLL_S) if prospect.as_of else least
    left_s = (prospect.finish_p50 - now).total_seconds()
    return max(least, min(MOST_POLL_S, round(left_s / 2)))


def with_doubts(
    warnings: Sequence[Mapping[str, Any]], prospect: Prospect, *, start_by: datetime | None
) -> Sequence[Mapping[str, Any]]:
    """A job's warnings, with one more when it will hardly start in time."""
    if start_by is None or prospect.start_p50 is None or prospect.start_p50 <= start_by:
        return warnings
    late = f"{prospect.start_p50:%Y-%m-%dT%H:%M:%SZ}"
    told = f"It will rather start at {late}, which is later than its deadline allows."
    return [*warnings, {"code": "deadline_unlikely", "message": told}]
