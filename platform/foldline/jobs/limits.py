"""What a tenant's limits leave room for when it submits.

How much is used is counted at the commit (`jobs.counting`) and never kept. What waiting does
not change is refused with 403, the rest with 429 and the time after which to try again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from foldline.artifacts.selectors import stored_bytes
from foldline.clock import day_of, midnight, next_month
from foldline.errors import FoldlineError, QuotaExceeded, QuotaForbids
from foldline.fresh import Fresh
from foldline.scheduling.fairness import DEFAULT_ESTIMATE_GPU_S
from foldline.tenants.quotas import Allowance, Limits

MINUTE_S = 60
DAY_S = 86_400
PLACE_S = 5
"""Seconds after which asking for a place in the line again makes sense."""

REQUESTS, WAITING, RUNNING = "requests_per_minute", "waiting", "running"
DAY, MONTH = "gpu_seconds_day", "gpu_seconds_month"
COUNTED = (REQUESTS, WAITING, DAY, MONTH)
"""What is counted for a submit, in the order in which it refuses."""
WORK = frozenset({WAITING, DAY, MONTH, "artifact_bytes"})
"""Limits on work to be done: an answer that is there already needs none of them."""
_UNITS = {REQUESTS: "", WAITING: "jobs", DAY: "gpu-seconds", MONTH: "gpu-seconds"}

stored_kept: Fresh[UUID, int] = Fresh()


class Pair(NamedTuple):
    """A number over all models, and of the one that is called."""

    whole: float = 0
    model: float = 0


class Limit(NamedTuple):
    """One limit that is set; `place` says of which of a `Pair`."""

    name: str
    place: int
    allowed: int


@dataclass(frozen=True, kw_only=True)
class Use:
    """How much of its limits a tenant uses at `now`. What no limit asks for is 0."""

    now: datetime
    requests: Pair
    waiting: Pair
    running: Pair
    open_gpu_s: Pair
    """Estimated for the jobs that wait or run."""
    day_gpu_s: Pair
    month_gpu_s: Pair

    def of(self, limit: Limit) -> float:
        """What counts against the limit."""
        if limit.name == REQUESTS:
            return self.requests[limit.place]
        if limit.name == WAITING:
            return self.waiting[limit.place]
        spent = self.day_gpu_s if limit.name == DAY else self.month_gpu_s
        return spent[limit.place] + self.open_gpu_s[limit.place]


def limits_set(limits: Limits, *, names: Collection[str] = COUNTED) -> Iterator[Limit]:
    """Those that are set, over all models and of the one that is called."""
    for name in names:
        for place, allowance in enumerate((limits.whole, limits.model)):
            if (allowed := getattr(allowance, name)) is not None:
                yield Limit(name, place, allowed)


def is_free(limits: Limits) -> bool:
    """Whether nothing at all is limited, as for most tenants."""
    return limits.whole == _NONE == limits.model


_NONE = Allowance()


def is_counted(limits: Limits) -> bool:
    """Whether anything must be counted for a submit."""
    return not is_free(limits) and any(limits_set(limits, names=(*COUNTED, RUNNING)))


def refuse_forbidden(
    limits: Limits, *, tenant_id: UUID, model: str, inputs: Mapping[str, Any]
) -> None:
    """Raises QuotaForbids for what will not fit later either."""
    if not limits.active:
        raise QuotaForbids.of("active", used=None, allowed=None)
    if not limits.allowed:
        raise QuotaForbids.of("allowed", used=None, allowed=None, model=model)
    for limit in limits_set(limits, names=("input_bytes",)):
        size = len(json.dumps(inputs, ensure_ascii=False).encode())
        if size > limit.allowed:
            raise _forbids(limit, used=size, model=model)
    # Outputs are stored whatever their size; so a tenant that is full begins nothing new.
    for limit in limits_set(limits, names=("artifact_bytes",)):
        used = stored_kept.get(tenant_id, lambda: stored_bytes(tenant_id))
        if used >= limit.allowed:
            raise _forbids(limit, used=used, model=model)


def _forbids(limit: Limit, *, used: int, model: str) -> QuotaForbids:
    of_model = model if limit.place else ""
    return QuotaForbids.of(limit.name, used=used, allowed=limit.allowed, model=of_model)


def spared(refusal: FoldlineError, *, attached: bool) -> bool:
    """Whether an equal call's run takes the work that was refused off the caller. One that still
    runs (`attached`) leaves it a place in the line to find."""
    name = refusal.extra.get("limit", {}).get("name")
    return name in WORK and not (attached and name == WAITING)


def most(limit: Limit, estimate_gpu_s: float | None) -> float:
    """How much may be used of a limit, so that one job more fits."""
    if limit.name not in (DAY, MONTH):
        return limit.allowed - 1
    return limit.allowed - (DEFAULT_ESTIMATE_GPU_S if estimate_gpu_s is None else estimate_gpu_s)


def exceeded(
    limits: Limits,
    use: Use,
    *,
    estimate_gpu_s: float | None,
    names: Collection[str] = COUNTED,
) -> Limit | None:
    """The first of the limits that has no room for one job more."""
    for limit in limits_set(limits, names=names):
        if use.of(limit) > most(limit, estimate_gpu_s):
            return limit
    return None


def refusal(
    limit: Limit, use: Use, *, model: str, free_at: datetime | None = None
) -> QuotaExceeded:
    """What the caller is told. `free_at`: when the oldest request leaves the last minute."""
    until = free_at if limit.name == REQUESTS else _until(limit.name, use.now)
    wait_s = PLACE_S if until is None else (until - use.now).total_seconds()
    return QuotaExceeded.of(
        limit.name,
        used=use.of(limit),
        allowed=limit.allowed,
        until=until,
        retry_after_s=max(1, math.ceil(wait_s)),
        model=model if limit.place else "",
        window_s=_window_s(limit.name, use.now),
        unit=_UNITS[limit.name],
    )


def _until(name: str, now: datetime) -> datetime | None:
    """When the budget begins anew; None for what has no such time."""
    today = day_of(now)
    if name == DAY:
        return midnight(today + timedelta(days=1))
    return midnight(next_month(today)) if name == MONTH else None


def _window_s(name: str, now: datetime) -> int | None:
    if name == MONTH:
        today = day_of(now)
        return (next_month(today) - today.replace(day=1)).days * DAY_S
    return {REQUESTS: MINUTE_S, DAY: DAY_S}.get(name)


def owes_ticket(limits: Limits, use: Use) -> bool:
    """Whether a worker may take the job that is submitted now. One that waits for other jobs of
    its tenant gets its ticket when one of them ends."""
    in_front = use.waiting.model
    return all(
        use.running[limit.place] + in_front < limit.allowed
        for limit in limits_set(limits, names=(RUNNING,))
    )
