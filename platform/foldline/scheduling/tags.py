"""Start-time fair queueing: virtual time, and where each flow stands on it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from typing import Any

VERSION = 1
SLEEPERS = 1000
"""Flows remembered though none of their jobs waits; beyond it those furthest ahead stay."""

_HORIZON = 1e12


class Tags:
    """The fair accounts of one model, opened for a choice.

    `virtual` is the virtual time V. `awake` holds the start tag of each flow that stood in line
    at the last choice, `asleep` the tag of each other flow that is still ahead of V. All are
    GPU-seconds divided by a weight. `lane` says whether the last slot went to an overdue job.
    """

    def __init__(self, accounts: Mapping[str, Any]) -> None:
        """Whatever the accounts do not say, or not in this version's words, begins anew."""
        known = accounts if accounts.get("version") == VERSION else {}
        self.virtual = _number(known.get("virtual")) or 0.0
        self.awake = _tags(known.get("awake"))
        self.asleep = _tags(known.get("asleep"))
        self.lane = known.get("lane") is True

    def stand(self, flows: Iterable[str]) -> None:
        """These flows have a job in line now; the others sleep.

        A flow that wakes starts at V: it brings no credit from its sleep, and of its past only
        what it is ahead by. When nobody was left standing there was no one to be fair to: all
        begin level.
        """
        standing = set(flows)
        if standing.isdisjoint(self.awake):
            self.virtual = max(self.virtual, *self.awake.values(), *self.asleep.values(), 0.0)
        known = {**self.asleep, **self.awake}
        awake = {flow: self.start(flow) for flow in standing}
        self.asleep = {
            flow: tag for flow, tag in known.items() if flow not in awake and tag > self.virtual
        }
        self.awake = awake
        self.virtual = max(self.virtual, min(awake.values(), default=self.virtual))

    def start(self, flow: str) -> float:
        """The start tag of the flow's next job."""
        if flow in self.awake:
            return self.awake[flow]
        return max(self.asleep.get(flow, self.virtual), self.virtual)

    def correct(self, flow: str, amount: float) -> None:
        """Move a flow's tag afterwards. Only a flow in line can get back more than it is ahead."""
        if flow in self.awake:
            self.awake[flow] += amount
            return
        tag = max(self.asleep.pop(flow, self.virtual), self.virtual) + amount
        if tag > self.virtual:
            self.asleep[flow] = tag

    def as_json(self) -> dict[str, Any]:
        asleep = self.asleep
        if len(asleep) > SLEEPERS:
            asleep = dict(heapq.nlargest(SLEEPERS, asleep.items(), key=lambda item: item[1]))
        return {
            "version": VERSION,
            "virtual": self.virtual,
            "awake": self.awake,
            "asleep": asleep,
            "lane": self.lane,
        }


def _tags(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        return {}
    read = ((str(flow), _number(tag)) for flow, tag in value.items())
    return {flow: tag for flow, tag in read if tag is not None}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and abs(value) < _HORIZON else None
