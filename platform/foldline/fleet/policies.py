"""What an admin wants of a model's workers, and what the scaler decided: reading and writing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import OuterRef, Subquery

from foldline.fleet.models import MOST_WORKERS, ModelPolicy, ScalingDecision

HISTORY = 50
"""Decisions kept of each revision."""
RENEW_S = 10.0
"""A decision that stands is said again this often."""
STALE_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """Of one model. `pinned` counts more than the least and the most. `sharing` and the three
    after it are what decides between a part of a card and all of it."""

    min_workers: int = 0
    max_workers: int = 64
    pinned: int | None = None
    omega: float = 0.2
    floor_workers: int = 1
    floor_after_s: float = 0.0
    floor_step_s: float = 0.0
    sharing: bool = False
    latency_strict: bool = False
    rare_and_expensive: bool = False
    several_cards: bool = False

    @property
    def least(self) -> int:
        return _bounded(self.min_workers if self.pinned is None else self.pinned)

    @property
    def most(self) -> int:
        return _bounded(self.max_workers if self.pinned is None else self.pinned)

    @property
    def right(self) -> int:
        return _bounded(self.floor_workers)


def _bounded(workers: int) -> int:
    """Rows are also written past the forms."""
    return min(workers, MOST_WORKERS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """A decision about one revision, as `ScalingDecision` keeps it; None: could not be read."""

    revision_id: UUID
    desired: int
    actual: int
    starts: int
    tier: str
    zero_in_s: float | None
    reason: str
    warnings: tuple[str, ...] = ()
    waiting: int | None = None
    running: int | None = None
    ready: int | None = None
    unacked: int | None = None
    piece: Mapping[str, Any] = field(default_factory=dict)
    """Of a card, that a worker should get: kind, bytes, rule, warning."""


_WISHED = tuple(Wish.__dataclass_fields__)


def wishes(model_ids: Collection[UUID]) -> Mapping[UUID, Wish]:
    """Of each model; the defaults where no admin has said anything."""
    rows = ModelPolicy.objects.filter(model_id__in=list(model_ids)).values("model_id", *_WISHED)
    said = {row.pop("model_id"): Wish(**row) for row in rows}
    return {model_id: said.get(model_id, Wish()) for model_id in model_ids}


def wish(model_id: UUID, **changes: Any) -> None:
    """Change what is wanted of a model; what is not named stays. Raises ValidationError."""
    policy = ModelPolicy.objects.filter(model_id=model_id).first()
    policy = policy or ModelPolicy(model_id=model_id)
    for name, value in changes.items():
        setattr(policy, name, value)
    policy.full_clean(validate_unique=False)
    policy.save()


def pin(model_id: UUID, *, workers: int | None) -> None:
    """Keep exactly so many workers, whatever waits; None lets the scaler decide again."""
    wish(model_id, pinned=workers)


def latest_decisions(revision_ids: Collection[UUID]) -> Mapping[UUID, ScalingDecision]:
    """The newest decision about each revision; none where there never was one."""
    newest = ScalingDecision.objects.filter(revision_id=OuterRef("revision_id"))
    rows = ScalingDecision.objects.filter(
        revision_id__in=list(revision_ids),
        pk=Subquery(newest.order_by("-at", "-pk").values("pk")[:1]),
    )
    return {row.revision_id: row for row in rows.select_related("revision__model")}


def history(revision_id: UUID, *, limit: int = HISTORY) -> Sequence[ScalingDecision]:
    """What was decided about a revision, the last first."""
    return list(
        ScalingDecision.objects.filter(revision_id=revision_id).order_by("-at", "-pk")[:limit]
    )


def is_fresh(decision: ScalingDecision, *, now: datetime) -> bool:
    """Whether a scaler still says so: an old decision tells of one that has stopped."""
    return now - decision.as_of <= timedelta(seconds=STALE_S)


def record(decided: Sequence[Decided], *, now: datetime) -> None:
    """Keep what was decided: a new row where workers come or go, else the last one renewed."""
    before = latest_decisions([each.revision_id for each in decided])
    with transaction.atomic():
        for each in decided:
            _record(each, before.get(each.revision_id), now=now)


def _record(decided: Decided, last: ScalingDecision | None, *, now: datetime) -> None:
    told = {name: getattr(decided, name) for name in _TOLD} | {"warnings": list(decided.warnings)}
    if last is None or last.desired != decided.desired or last.at > now:
        ScalingDecision.objects.create(revision_id=decided.revision_id, at=now, as_of=now, **told)
        _forget(decided.revision_id)
        return
    told["starts"] = max(decided.starts, last.starts)
    same = all(getattr(last, name) == told[name] for name in _STANDS)
    if not same or now - last.as_of >= timedelta(seconds=RENEW_S) or last.as_of > now:
        ScalingDecision.objects.filter(pk=last.pk).update(as_of=now, **told)


_TOLD = tuple(
    name for name in Decided.__dataclass_fields__ if name not in ("revision_id", "warnings")
)
_STANDS = ("actual", "tier", "waiting", "running", "warnings")
"""What is written at once when it changes; a reason counts seconds and changes with each look."""


def _forget(revision_id: UUID) -> None:
    rows = ScalingDecision.objects.filter(revision_id=revision_id).order_by("-at", "-pk")
    kept = list(rows.values_list("pk", flat=True)[:HISTORY])
    rows.exclude(pk__in=kept).delete()
