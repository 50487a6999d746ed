"""What a worker process tells about itself, and what happens when it tells nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count

from foldline.catalog.models import Revision
from foldline.catalog.selectors import NAME
from foldline.clock import database_now
from foldline.fleet.accounts import settle_gone
from foldline.fleet.models import Worker


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What a worker of one revision must know to start, without touching the catalog."""

    revision_id: UUID
    model: str
    number: int
    folder: Path
    digest: str
    runtime: str
    threads: int
    max_batch_size: int
    load_timeout_s: int
    run_timeout_s: int


class NoRevision(Exception):
    """There is no such model or revision, or it is a draft: set it live in the admin first."""


_NAME = re.compile(rf"(?P<model>{NAME.pattern})(@r?(?P<number>[0-9]{{1,9}}))?")


def named(text: str) -> tuple[str, int | None]:
    """Model and number of `MODEL` or `MODEL@r2`. Raises NoRevision."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise NoRevision
    return match["model"], int(match["number"]) if match["number"] else None


def published(model: str, *, number: int | None = None) -> Revision:
    """The live revision of a model, or its revision `number` unless a draft. Raises NoRevision."""
    revisions = Revision.objects.filter(model__name=model).exclude(state=Revision.State.DRAFT)
    wanted = {"number": number} if number is not None else {"state": Revision.State.LIVE}
    revision = revisions.filter(**wanted).select_related("model").first()
    if revision is None:
        raise NoRevision
    return revision


def assignment(model: str, *, number: int | None = None) -> Assignment:
    """What a worker of that `published` revision is told. Raises NoRevision."""
    revision = published(model, number=number)
    return Assignment(
        revision_id=revision.id,
        model=revision.model.name,
        number=revision.number,
        folder=Path(revision.folder),
        digest=revision.digest,
        runtime=revision.runtime,
        threads=revision.threads,
        max_batch_size=revision.max_batch_size,
        load_timeout_s=revision.load_timeout_s,
        run_timeout_s=revision.run_timeout_s,
    )


def register(
    *,
    name: str,
    revision_id: UUID,
    node: str,
    pid: int,
    card: str = "",
    card_bytes: int = 0,
    share: float = 1.0,
) -> UUID:
    """A worker process has begun; gives the id of its row."""
    now = database_now()
    worker = Worker.objects.create(
        name=name,
        revision_id=revision_id,
        node=node,
        pid=pid,
        card=card,
        card_bytes=card_bytes,
        share=share,
        state=Worker.State.STARTING,
        started_at=now,
        last_seen=now,
    )
    return worker.id


def report(worker_id: UUID, **changes: Any) -> None:
    """Write what a worker says of itself: state, current_job, load_seconds, peaks, failure.

    Also the sign of life. A row that was buried by mistake comes back with the state it says.
    With `gone` its account is settled.
    """
    now = database_now()
    if changes.get("state") != Worker.State.GONE:
        Worker.objects.filter(id=worker_id).update(last_seen=now, **changes)
        return
    with transaction.atomic():
        Worker.objects.filter(id=worker_id).update(last_seen=now, **changes)
        settle_gone(id=worker_id, now=now)


def note_placing(placing: Mapping[str, Mapping[str, str | float]]) -> None:
    """Of workers by name: their node, and the seconds before their processes ran. Once of each."""
    for name, told in placing.items():
        Worker.objects.filter(name=name, placing__isnull=True).update(placing=dict(told))


def bury_silent_workers(*, before: datetime) -> int:
    """Mark workers that have not been heard of since `before` as gone; settles their accounts."""
    silent = Worker.objects.filter(last_seen__lt=before).exclude(state=Worker.State.GONE)
    return sum(_bury(worker_id, before=before) for worker_id in silent.values_list("id", flat=True))


def _bury(worker_id: UUID, *, before: datetime) -> bool:
    with transaction.atomic():
        silent = Worker.objects.filter(id=worker_id, last_seen__lt=before)
        buried = silent.exclude(state=Worker.State.GONE).update(
            state=Worker.State.GONE, current_job=None
        )
        if buried:
            settle_gone(id=worker_id, now=database_now())
    return bool(buried)


def held_tickets(revision_id: UUID) -> set[str]:
    """The tickets that present workers of a revision say they hold."""
    workers = Worker.objects.filter(revision_id=revision_id).exclude(state=Worker.State.GONE)
    return set(workers.exclude(ticket="").values_list("ticket", flat=True))


def present_workers(revision_id: UUID) -> int:
    """Workers of a revision that are not gone."""
    workers = Worker.objects.filter(revision_id=revision_id)
    return workers.exclude(state=Worker.State.GONE).count()


def share_of(name: str) -> float:
    """The part of its card that the worker of this name holds; the whole one when unknown."""
    share = Worker.objects.filter(name=name).values_list("share", flat=True).first()
    return 1.0 if share is None else share


def last_starts(revision_id: UUID, *, count: int) -> list[str]:
    """How the newest starts of a revision ended, the last one first: why it failed, else empty.

    A worker that still loads has not ended its start.
    """
    workers = Worker.objects.filter(revision_id=revision_id).exclude(
        failure__isnull=True, load_seconds={}
    )
    newest = workers.order_by("-started_at").values_list("failure", flat=True)
    return [failure["message"] if failure else "" for failure in newest[:count]]


def workers_by_state(revision_ids: Collection[UUID]) -> Mapping[UUID, Mapping[str, int]]:
    """How many workers of each revision are in each state; those that are gone do not count."""
    present = Worker.objects.filter(revision_id__in=revision_ids).exclude(state=Worker.State.GONE)
    found: dict[UUID, dict[str, int]] = {revision_id: {} for revision_id in revision_ids}
    for revision_id, state, number in present.values_list("revision_id", "state").annotate(
        Count("id")
    ):
        found[revision_id][state] = number
    return found
