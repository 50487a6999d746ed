"""What the database says in one round, read once for all models."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import DatabaseError

from foldline.clock import database_now
from foldline.fleet.peaks import Peak, peaks_of
from foldline.fleet.policies import Wish, wishes
from foldline.fleet.selectors import Present, present
from foldline.forecasts.hints import Hint, hints
from foldline.forecasts.work import Work, work_of
from foldline.jobs import demand
from foldline.jobs.demand import Run, Served

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """`served`: the revisions that workers may be needed for. `rows`: what workers say of
    themselves, by what targets call them. `runs`: what is computed now, by worker. `arrived`:
    jobs that came since the round before, by revision. `work`: by the names of revisions;
    `hints`: of models."""

    now: datetime
    served: Sequence[Served]
    rows: Mapping[str, Present]
    runs: Mapping[str, Run]
    arrived: Mapping[UUID, int]
    wishes: Mapping[UUID, Wish]
    peaks: Mapping[UUID, Peak]
    work: Mapping[str, Work]
    hints: Mapping[str, Hint]


def read_facts(*, since: datetime | None) -> Facts:
    """`since`: the time of the round before. Raises DatabaseError."""
    now = database_now()
    served = demand.served()
    rows = present()
    return Facts(
        now=now,
        served=served,
        # A pod is named as its host; a process by where it runs.
        rows={row.node: row for row in rows} | {row.process: row for row in rows},
        runs=demand.runs(),
        # A clock that was set back shows no arrivals, not all of them.
        arrived=demand.arrivals(since=since, now=now) if since else {},
        wishes=wishes([each.model_id for each in served]),
        peaks=peaks_of([each.revision_id for each in served]),
        work={each.name: work_of(each.revision_id, lane=each.lane, now=now) for each in served},
        hints=_hints(now),
    )


def _hints(now: datetime) -> Mapping[str, Hint]:
    try:
        return hints(now=now)
    except DatabaseError as error:
        # Whoever is warm stays a while without; all else goes on.
        log.warning("announced calls not read", extra={"reason": str(error)})
        return {}
