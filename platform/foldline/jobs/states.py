"""The life of a job as a table. Standard library only: simulations run on this very module."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


STEPS: Mapping[State | None, frozenset[State]] = {
    None: frozenset({State.QUEUED, State.SUCCEEDED}),
    State.QUEUED: frozenset(
        {State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED}
    ),
    State.RUNNING: frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.QUEUED}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
}
"""What may follow what; `None` stands for a job that is not there yet."""

TERMINAL = frozenset(state for state, following in STEPS.items() if state and not following)
OPEN = frozenset(State) - TERMINAL


def sources_of(target: State) -> frozenset[State]:
    """The states from which `target` may be entered."""
    return frozenset(state for state, following in STEPS.items() if state and target in following)


def may_follow(source: State | None, target: State) -> bool:
    return target in STEPS[source]
