"""Walking the lines: what waits, who works and what is known become a forecast per revision."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.policies import is_fresh, latest_decisions
from foldline.forecasts.calibration import keep_told, learn
from foldline.forecasts.capacity import Crew, crew_of
from foldline.forecasts.history import History, Run
from foldline.forecasts.line import Line, line_of
from foldline.forecasts.models import Forecast, Told
from foldline.forecasts.outlook import Outlook, outlook_of
from foldline.forecasts.places import Places, arranged
from foldline.forecasts.projection import project
from foldline.forecasts.sample import Newcomer, told_to
from foldline.jobs.faults import contained
from foldline.jobs.models import Job, QueueState
from foldline.scheduling.fairness import Head

ARRIVALS_S = 86_400.0
ARRIVALS = 2_000


@dataclass(frozen=True, kw_only=True)
class Trail:
    """What a walk of a revision leaves for the next one.

    `before`: the outlook of the walk before; gateways may have told of it a little longer.
    `arrivals`: (when, flow) of the jobs of the last day. `crew`: the most workers that
    served since the line was empty last.
    """

    outlook: Outlook
    places: Places
    before: Outlook | None = None
    arrivals: Sequence[tuple[datetime, str]] = ()
    crew: int = 0


class Walker:
    """Walks every line that is live or not empty, and remembers from walk to walk."""

    def __init__(self) -> None:
        self._history = History()
        self._trails: dict[UUID, Trail] = {}
        self._rng = random.Random(0)  # noqa: S311 - a simulation

    def begin(self) -> None:
        """Take up where the last forecaster stopped."""
        self._history.begin()
        for stored in Forecast.objects.all():
            take_up = partial(self._take_up, stored)
            contained("forecast: begin", take_up, otherwise=None, of=stored.revision_id)

    def _take_up(self, stored: Forecast) -> None:
        self._trails[stored.revision_id] = Trail(
            outlook=outlook_of(stored.document),
            places=Places(bytes(stored.places)),
            arrivals=self._history.came_before(stored.revision_id),
        )

    def walk(self) -> int:
        """One round: a forecast for each revision, in one transaction; gives their number. One
        that cannot be walked keeps none of the others from theirs, and begins anew."""
        now = database_now()
        runs = self._history.refresh()
        revisions = _due()
        queues = QueueState.objects.in_bulk({revision.model_id for revision in revisions})
        wanted = _wanted(revisions, now=now)
        told: dict[UUID, list[Told]] = {}
        for revision in revisions:
            queue = queues.get(revision.model_id) or QueueState(model_id=revision.model_id)
            crew = crew_of(revision, wanted=wanted.get(revision.id, 0))
            step = partial(self._walk, revision, queue, crew, runs, now=now)
            sample = contained("forecast: walk", step, otherwise=None, of=revision.id)
            if sample is None:
                self._trails.pop(revision.id, None)
            else:
                told[revision.id] = sample
        with transaction.atomic():
            _store({revision_id: self._trails[revision_id] for revision_id in told})
            for sample in told.values():
                keep_told(sample)
            learn(now=now)
        return len(told)

    def _walk(
        self,
        revision: Revision,
        queue: QueueState,
        crew: Crew,
        runs: Sequence[Run],
        *,
        now: datetime,
    ) -> list[Told]:
        """Walk one line; gives what the new jobs in it were told."""
        before = self._trails.get(revision.id)
        known = before.places.rows() if before else {}
        line = line_of(revision, now=now)
        arrivals = before.arrivals if before else ()
        outlook, walked = project(
            revision,
            queue,
            line,
            crew,
            times=self._history.times(revision.model_id),
            runs=self._history.running(revision.id),
            came=arrivals,
            rng=self._rng,
            now=now,
        )
        most = max(before.crew if before and outlook.waiting else 0, crew.serving)
        line_now = arranged(
            walked.places,
            held=(job_id for held in line.held.values() for job_id in held.ids),
            share=crew.share,
            before=known,
            told=lambda head: _told_position(before, line, head),
        )
        begun = [run for run in runs if run.revision_id == revision.id]
        newcomers = _newcomers(line_now.newcomers, begun, known=known)
        self._trails[revision.id] = Trail(
            outlook=replace(outlook, lost=crew.serving < most),
            places=line_now.places,
            before=before.outlook if before else None,
            arrivals=_lately(arrivals, newcomers, now=now),
            crew=most,
        )
        if before is None:
            return []
        return told_to(newcomers, model_id=revision.model_id, outlook=before.outlook)


def _due() -> list[Revision]:
    """Revisions that are live or have jobs in line."""
    waits = Job.objects.filter(revision=OuterRef("id"), state="queued", attached_to=None)
    revisions = Revision.objects.exclude(state=Revision.State.DRAFT).select_related("model")
    return list(revisions.filter(Q(state=Revision.State.LIVE) | Exists(waits)))


def _wanted(revisions: Sequence[Revision], *, now: datetime) -> Mapping[UUID, int]:
    """How many workers the scaler wants of each; none where it has stopped saying so."""
    decisions = latest_decisions([revision.id for revision in revisions])
    return {key: each.desired for key, each in decisions.items() if is_fresh(each, now=now)}


def _store(trails: Mapping[UUID, Trail]) -> None:
    Forecast.objects.bulk_create(
        [
            Forecast(
                revision_id=revision_id,
                as_of=trail.outlook.as_of,
                document=trail.outlook.as_json(),
                places=trail.places.packed,
            )
            for revision_id, trail in trails.items()
        ],
        update_conflicts=True,
        unique_fields=["revision"],
        update_fields=["as_of", "document", "places"],
    )


def _newcomers(
    waiting: Iterable[Head], begun: Iterable[Run], *, known: Mapping[bytes, object]
) -> list[Newcomer]:
    """Jobs that no walk has seen before: new ones in line, and those that began meanwhile."""
    return [
        *(Newcomer(job_id=h.job_id, flow=h.flow, created_at=h.since) for h in waiting),
        *(
            Newcomer(job_id=run.job_id, flow=run.flow, created_at=run.created_at)
            for run in begun
            if run.number == 1 and run.job_id.bytes not in known
        ),
    ]


def _lately(
    arrivals: Sequence[tuple[datetime, str]], newcomers: Iterable[Newcomer], *, now: datetime
) -> list[tuple[datetime, str]]:
    """When jobs of which flow came in the last day, the last 2,000 of them."""
    first = now - timedelta(seconds=ARRIVALS_S)
    came = [*arrivals, *sorted((job.created_at, job.flow) for job in newcomers)]
    return [(at, flow) for at, flow in came[-ARRIVALS:] if at > first]


def _told_position(before: Trail | None, line: Line, head: Head) -> int | None:
    """The best that the caller of a job that is new in line can have been told when it came."""
    if before is None:
        return None
    mine = line.flows[head.flow]
    ahead = bisect_left(mine, head.job_id.int, key=lambda head: head.job_id.int)
    outlooks = [before.outlook, *([before.before] if before.before else [])]
    spots = [each.next_spot(head.flow, ahead_in_flow=ahead) for each in outlooks]
    return min((spot.position for spot in spots if spot), default=None)
