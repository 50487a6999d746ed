"""What a worker held of its card, and how it adds up: cold start + idle + compute + wasted.

Jobs post what they used while the worker lives. When it has gone, the rest is posted: the
seconds in which it loaded its model, and those in which it held the card for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from foldline.fleet.models import Worker
from foldline.tenants import ledger
from foldline.tenants.ledger import Kind, WorkerLines, cost_of
from foldline.tenants.models import LedgerLine
from foldline.tenants.usage import Amount, by_model_and_day

LEAST_S = 1e-6  # the database's clock knows nothing finer


@dataclass(frozen=True, kw_only=True)
class Held:
    """GPU-seconds of one worker, from its first sign of life to its last."""

    paid: float
    cold_start: float
    used: float

    @property
    def idle(self) -> float:
        return self.paid - self.cold_start - self.used


def held_by(worker: Worker, lines: WorkerLines) -> Held:
    """What a worker held so far. One that never loaded its model spent all of it on trying.

    It ends when the worker was last heard of, or when its last attempt was closed: a card that
    is lost with its worker is held until that is noticed.
    """
    until = max(worker.last_seen, lines.last_used or worker.last_seen)
    paid = (until - worker.started_at).total_seconds() * worker.share
    load_s = worker.load_seconds.get("total")
    loading = paid - lines.used if load_s is None else min(load_s * worker.share, paid)
    return Held(paid=paid, cold_start=loading, used=lines.used)


def settle_gone(*, now: datetime, **which: Any) -> None:
    """Post what a worker that is gone held and nobody used; the second time, the difference.

    `which` is its `id` or its `name`; one that is still there is left alone. In a transaction:
    the row is locked, so that of two who settle it one posts.
    """
    rows = Worker.objects.select_for_update(of=("self",)).select_related("revision__model")
    worker = rows.filter(state=Worker.State.GONE, **which).first()
    if worker is None:
        return
    lines = ledger.lines_of_workers([worker.name])[worker.name]
    held = held_by(worker, lines)
    due = {Kind.COLD_START: held.cold_start, Kind.IDLE: held.idle}
    missing = {kind: seconds - lines.gpu_seconds.get(kind, 0.0) for kind, seconds in due.items()}
    ledger.post(
        [
            _line(worker, kind, seconds, now=now)
            for kind, seconds in missing.items()
            if abs(seconds) > LEAST_S
        ]
    )


def _line(worker: Worker, kind: Kind, gpu_seconds: float, *, now: datetime) -> LedgerLine:
    model = worker.revision.model
    return LedgerLine(
        at=now,
        kind=kind,
        model=model.name,
        worker=worker.name,
        gpu_seconds=gpu_seconds,
        cost=cost_of(gpu_seconds, price=model.price),
    )


@dataclass(frozen=True, kw_only=True)
class Paid:
    """What was paid for one model: on a day, or, without one, by workers that are still there.

    Of the latter `idle` includes the attempts that run at this moment.
    """

    model: str
    day: date | None
    compute: float = 0.0
    wasted: float = 0.0
    cold_start: float = 0.0
    idle: float = 0.0
    cost: Decimal = Decimal(0)

    @property
    def paid(self) -> float:
        return self.compute + self.wasted + self.cold_start + self.idle


def paid_by_day(*, first: date, last: date) -> Sequence[Paid]:
    """What the ledger says was paid on these days, the last day first."""
    found = by_model_and_day(first=first, last=last)
    days = sorted(found, key=lambda key: (-key[1].toordinal(), key[0]))
    return [_paid(model, day, found[model, day]) for model, day in days]


def held_now() -> Sequence[Paid]:
    """What workers that are still there have held so far and no line says yet, by model."""
    present = Worker.objects.exclude(state=Worker.State.GONE).select_related("revision__model")
    workers = list(present)
    lines = ledger.lines_of_workers([worker.name for worker in workers])
    sums: dict[str, Paid] = {}
    for worker in workers:
        name, price = worker.revision.model.name, worker.revision.model.price
        held, known = held_by(worker, lines[worker.name]), lines[worker.name].gpu_seconds
        loading = held.cold_start - known.get(Kind.COLD_START, 0.0)
        idle = held.idle - known.get(Kind.IDLE, 0.0)
        so_far = sums.get(name, Paid(model=name, day=None))
        sums[name] = replace(
            so_far,
            cold_start=so_far.cold_start + loading,
            idle=so_far.idle + idle,
            cost=so_far.cost + cost_of(loading + idle, price=price),
        )
    return [sums[name] for name in sorted(sums)]


def _paid(model: str, day: date, kinds: Mapping[str, Amount]) -> Paid:
    held = {kind: kinds[kind] for kind in _HELD if kind in kinds}
    return Paid(
        model=model,
        day=day,
        cost=sum((amount.cost for amount in held.values()), Decimal(0)),
        **{str(kind): amount.gpu_seconds for kind, amount in held.items()},
    )


_HELD = (Kind.COMPUTE, Kind.WASTED, Kind.COLD_START, Kind.IDLE)
