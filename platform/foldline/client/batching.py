"""Many calls in one request, and how they come to their ends.

A server that knows no batches gets the calls one by one; what comes back has the same shape.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from foldline.client.asks import (
    MOST_BATCH,
    Ask,
    Call,
    Flow,
    Options,
    Pause,
    place,
    post,
)
from foldline.client.calling import Calling, read_reply
from foldline.client.errors import Refused, TimedOut
from foldline.client.shapes import Batch, BatchItem, Job
from foldline.client.watching import APART_S, LONGEST_S, held, watch

SeenBatch = Callable[[Batch], None]
# Of the caller and not of the call: whoever meets one meets it with every call.
_OF_ALL = frozenset({401, 403})


def send(calling: Calling, calls: Sequence[Call], options: Options) -> Flow[Batch]:
    """Submit the calls; one that is refused does not sink the rest. `options` hold for all.

    Each has an idempotency key. Raises ValueError for more than 100.
    """
    if len(calls) > MOST_BATCH:
        raise ValueError(f"A batch has {MOST_BATCH} calls at most; these are {len(calls)}.")
    jobs = [_item(call) for call in calls]
    keys = "\n".join(call.idempotency_key for call in calls)
    key = hashlib.sha256(keys.encode()).hexdigest()
    try:
        return (
            yield from calling.told(
                Batch, post(place("batches"), {"jobs": jobs, **options}, key=key)
            )
        )
    except Refused as refused:
        if refused.problem.status not in (404, 405):
            raise
    return (yield from _singly(calling, calls, options))


def _item(call: Call) -> dict[str, object]:
    return {"model": call.model, **call.body(), "idempotency_key": call.idempotency_key}


def _singly(calling: Calling, calls: Sequence[Call], options: Options) -> Flow[Batch]:
    items = []
    for index, call in enumerate(calls):
        body = {**options, **call.body()}
        ask = post(place("models", call.model, "jobs"), body, key=call.idempotency_key)
        try:
            job = yield from calling.told(Job, ask)
        except Refused as refused:
            if refused.problem.status in _OF_ALL:
                raise
            items.append(BatchItem(index=index, error=refused.problem))
        else:
            items.append(BatchItem(index=index, job=job))
    return Batch(jobs=tuple(items))


def follow(
    calling: Calling, batch: Batch, *, timeout_s: float | None, seen: SeenBatch
) -> Flow[Batch]:
    """The batch once all its jobs have ended. `seen` is called at first and after each look.

    Raises TimedOut.
    """
    until = math.inf if timeout_s is None else calling.clock() + timeout_s
    if not batch.id:
        return (yield from _follow_singly(calling, batch, timeout_s=timeout_s, seen=seen))
    seen(batch)
    while not batch.ended:
        if calling.clock() >= until:
            raise TimedOut(_jobs(batch), seconds=timeout_s or 0)
        batch = yield from _look(calling, batch, until=until)
        seen(batch)
    return batch


def _look(calling: Calling, batch: Batch, *, until: float) -> Flow[Batch]:
    """The batch once one more of its jobs has ended, or when asking again makes sense."""
    began = calling.clock()
    wait_s = int(min(LONGEST_S, max(1.0, until - began)))
    ask = Ask(method="GET", path=place("batches", batch.id))
    wait = {"wait": "any", "timeout_s": str(wait_s)}
    later = read_reply(Batch, (yield from held(calling, ask, wait, wait_s=wait_s)))
    took_s = calling.clock() - began
    same = _count(later) == _count(batch) and took_s < wait_s - 1
    pause_s = max(APART_S, later.poll_after_s or 0.0) if same else APART_S - took_s
    if pause_s > 0 and not later.ended:
        yield Pause(seconds=max(0.0, min(pause_s, until - calling.clock())))
    return later


def _count(batch: Batch) -> int:
    return sum(item.open for item in batch.jobs)


def _jobs(batch: Batch) -> list[Job]:
    return [item.job for item in batch.jobs if item.job is not None]


def _follow_singly(
    calling: Calling, batch: Batch, *, timeout_s: float | None, seen: SeenBatch
) -> Flow[Batch]:
    def as_batch(jobs: Sequence[Job]) -> Batch:
        left = iter(jobs)
        return Batch(
            jobs=tuple(
                item if item.job is None else replace(item, job=next(left)) for item in batch.jobs
            )
        )

    jobs = yield from watch(
        calling,
        _jobs(batch),
        mode="all",
        timeout_s=timeout_s,
        seen=lambda jobs: seen(as_batch(jobs)),
    )
    return as_batch(jobs)
