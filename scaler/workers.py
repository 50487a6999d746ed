"""What each worker does, and since when: seen by the target, told by its row, remembered here."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from foldline.fleet.selectors import Present
from foldline.jobs.demand import Run
from scaler.brain.views import State, Worker
from scaler.facts import Facts
from scaler.targets import base
from scaler.targets.base import Seen

SPAWN_S = 2.0
"""From the order until a worker begins to load: the interpreter and its imports."""


class Workers:
    """Looks at them again and again."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, tuple[str, float]] = {}

    def look(self, seen: Seen, facts: Facts) -> tuple[Worker, ...]:
        """Those that hold cards, as the brain is shown them."""
        now = self._clock()
        known, self._since = self._since, {}
        found = []
        for each in seen.workers:
            if not each.holds:
                continue
            row = facts.rows.get(each.name)
            run = facts.runs.get(row.name) if row else None
            state = _state(each, row, run)
            doing = f"{state} {run.began}" if run else state
            before = known.get(each.name)
            since = before[1] if before and before[0] == doing else now
            self._since[each.name] = doing, since
            found.append(
                Worker(
                    name=each.name,
                    model=each.revision,
                    card=each.cards[0] if each.cards else "",
                    share=each.share,
                    state=state,
                    for_s=now - since,
                    left_s=_left_s(each, run, facts, state=state, for_s=now - since),
                )
            )
        return tuple(self._served_between(found, facts, now=now))

    def _served_between(
        self, workers: Sequence[Worker], facts: Facts, *, now: float
    ) -> Sequence[Worker]:
        """Jobs that came and went between two looks were served by those idle the shortest:
        their idle time begins anew, though nobody saw them at work."""
        came = defaultdict(int, {s.name: facts.arrived.get(s.revision_id, 0) for s in facts.served})
        order = sorted(workers, key=lambda each: each.for_s)
        renewed = set()
        for each in order:
            if each.state == "idle" and came[each.model] > 0:
                came[each.model] -= 1
                self._since[each.name] = "idle", now
                renewed.add(each.name)
        return [replace(each, for_s=0.0) if each.name in renewed else each for each in workers]


def _state(worker: base.Worker, row: Present | None, run: Run | None) -> State:
    """What a worker does: the target knows whether it lives and leaves, its row what it does."""
    if worker.phase == "ending":
        return "draining"
    if run is not None:
        return "busy"
    if row is None:
        # Whoever serves and says nothing of itself is taken to be at work.
        return "loading" if worker.phase in ("pending", "loading") else "busy"
    if row.state in ("starting", "loading"):
        return "loading"
    # With a ticket in its hand it is about to claim.
    return "idle" if row.state == "ready" and not row.ticket else "busy"


def _left_s(
    worker: base.Worker, run: Run | None, facts: Facts, *, state: State, for_s: float
) -> float:
    work = facts.work.get(worker.revision)
    if work is None:
        return 0.0
    if run is not None:
        elapsed_s = max(0.0, (facts.now - run.began).total_seconds())
        return work.left_s(size=run.size, elapsed_s=elapsed_s)
    if state == "loading":
        served = next(each for each in facts.served if each.name == worker.revision)
        return max(0.5, SPAWN_S + work.cold_s(load_timeout_s=served.load_timeout_s) - for_s)
    return 0.0
