"""How long a job that lost its worker or plugin waited for the next attempt.

The bound holds where another loaded worker is idle and nothing else is broken, so only such
cases are measured; how many were not is told.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.chaos.evidence import Evidence, JobRow
from benchmarks.chaos.history import Event

AROUND = frozenset(
    {"empty_redis", "freeze_redis", "cut_redis", "kill_sweeper", "end_sessions", "restart_postgres"}
)
LOADING_S = 2.0
"""A worker whose plugin was killed counts as not loaded for so long."""

NEAR_S = 10.0
"""How long a fault around is felt by a worker that computes."""


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """`claimed_s`: seconds from the kill until the job ran again."""

    claimed_s: float
    calm: bool
    """Nothing around was broken."""
    measured: bool
    """And another loaded worker was idle."""


def recoveries(evidence: Evidence, kind: str, *, settle_s: float) -> list[Recovery]:
    """Of the effective faults of a kind. `settle_s`: how long other faults are felt."""
    felt = {
        (event["job"], event["attempt"])
        for event in evidence.history
        if event["event"] == "fault" and event["kind"] == kind and event["effective"]
    }
    aimed = [e for e in evidence.history if e["event"] == "aimed" and e["kind"] == kind]
    return [
        recovery
        for event in aimed
        if (event["job"], event["attempt"]) in felt
        for recovery in _recovery(evidence, event, settle_s)
    ]


def cancels(evidence: Evidence) -> list[float]:
    """Seconds from the cancel of a running job until it was over, where its worker was up and
    nothing around was broken."""
    return [
        ended - asked
        for row in evidence.jobs.values()
        for asked, ended in _asked_and_ended(row)
        if _calm(evidence, asked - NEAR_S, ended)
        and not _was_down(evidence, row.attempts[-1].worker, asked - NEAR_S, ended)
    ]


def spread(values: list[float]) -> Mapping[str, Any]:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return {"n": len(ordered), "p50": statistics.median(ordered), "p99": p99, "max": ordered[-1]}


def _recovery(evidence: Evidence, aimed: Event, settle_s: float) -> Iterator[Recovery]:
    row = evidence.jobs[aimed["job"]]
    times = _requeued_and_claimed(row, aimed["attempt"])
    if times is not None:
        requeued, claimed = times
        calm = _calm(evidence, aimed["at"] - settle_s, claimed + 1)
        yield Recovery(
            claimed_s=claimed - aimed["at"],
            calm=calm,
            measured=calm and _idle(evidence, requeued) > _ahead(evidence, row, requeued),
        )


def _calm(evidence: Evidence, begin: float, end: float) -> bool:
    """Whether nothing around the workers was broken or begun in that time."""
    return not any(
        begin <= event["t"] <= end
        for event in evidence.history
        if event["event"] == "sweeper_started" or event.get("kind") in AROUND
    )


def _asked_and_ended(row: JobRow) -> Iterator[tuple[float, float]]:
    asked = [at for kind, _, at in row.events if kind == "cancel_requested"]
    ended = [at for kind, _, at in row.events if kind == "cancelled"]
    return zip(asked, ended, strict=False)


def _was_down(evidence: Evidence, worker: str, begin: float, end: float) -> bool:
    """Whether the worker was killed or frozen in that time."""
    return any(
        event["event"] == "down" and event["name"] == worker and begin <= event["t"] <= end
        for event in evidence.history
    )


def _requeued_and_claimed(row: JobRow, attempt: int) -> tuple[float, float] | None:
    """None when the job did not come back (cancelled, or out of attempts)."""
    requeued: float | None = None
    for kind, data, at in row.events:
        if kind == "queued" and data.get("attempt") == attempt:
            requeued = at
        elif kind == "running" and requeued is not None:
            return requeued, at
    return None


def _ahead(evidence: Evidence, row: JobRow, at: float) -> int:
    """Jobs that stood before it in the line at that moment. Ids are in the order of the line."""
    before = [other for other in evidence.jobs.values() if other.id < row.id]
    return sum(_waits(other, at) for other in before)


def _waits(row: JobRow, at: float) -> bool:
    kinds = [kind for kind, _, told in row.events if told <= at + 0.05]
    return bool(kinds) and kinds[-1] == "queued"


def _idle(evidence: Evidence, at: float) -> int:
    """Loaded workers that had nothing to do at that moment."""
    busy = {
        attempt.worker
        for row in evidence.jobs.values()
        for attempt in row.attempts
        if attempt.began <= at + 0.05 and (attempt.ended is None or attempt.ended > at - 0.05)
    }
    loaded: set[str] = set()
    for event in evidence.history:
        if event["t"] > at:
            break
        if event["event"] == "up":
            loaded.add(event["name"])
        elif event["event"] == "down" or (
            event["event"] == "unsettled" and at - event["t"] < LOADING_S
        ):
            loaded.discard(event["name"])
    return len(loaded - busy)
