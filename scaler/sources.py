"""One look at everything the brain decides by: jobs, workers, forecasts, an admin's wishes.

What cannot be read is an `Unread`, never nothing. The broker's counts are read to be shown
beside a decision, and no decision goes by them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import DatabaseError

from foldline.clock import database_now
from foldline.fleet.policies import Wish
from foldline.fleet.weights_ahead import wrong_weights
from foldline.jobs import demand, pauses, tickets
from foldline.jobs.demand import Served
from foldline.jobs.faults import note
from foldline.jobs.line import Startable
from foldline.jobs.tickets import BrokerUnavailable
from scaler.brain import views
from scaler.brain.policy import Floor, Policy
from scaler.brain.views import Demand, Observation, Unread
from scaler.facts import Facts, read_facts
from scaler.pieces import Piece, piece_of, start_s
from scaler.targets.base import Flavour, Problem, Seen, Target, Unseen
from scaler.workers import SPAWN_S, Workers

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Tickets:
    """Of one queue, as the broker counts them; None: it did not answer."""

    ready: int | None = None
    unacked: int | None = None


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one look showed, by the names of revisions."""

    at: datetime
    observation: Observation
    policies: Sequence[Policy]
    served: Mapping[str, Served]
    waiting: Mapping[str, int | None]
    """Jobs that could be started now; None where they could not be counted."""
    running: Mapping[str, int]
    tickets: Mapping[str, Tickets]
    pieces: Mapping[str, Piece]
    """What the next worker of each gets of a card."""
    start_s: Mapping[str, int]
    """How long its start may take by what was measured; 0 while nothing was."""
    problems: Sequence[Problem] = ()
    placing: Mapping[str, Mapping[str, str | float]] = field(default_factory=dict)
    """By the names of workers: the node, and the seconds before their processes ran."""


class Sources:
    """Looks again and again, and remembers when it did last. `flavour`: how cards are handed out
    here. `haste`: how many times more a second of waiting is worth here than the admin's number
    says."""

    def __init__(
        self,
        target: Target,
        *,
        flavour: Flavour = "whole",
        haste: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._workers = target, Workers(clock=clock)
        self._flavour, self._haste = flavour, haste
        self._looked_at: datetime | None = None

    def look(self, *, cramped: frozenset[str] = frozenset()) -> Look:
        """Raises DatabaseError: without the database nothing is known, and nothing is done.
        `cramped`: the revisions whose worker, ordered in the last round, found no room."""
        seen, unseen = self._see()
        facts = read_facts(since=self._looked_at)
        self._looked_at = facts.now
        lines = {each.name: _line(each, seen=seen, now=facts.now) for each in facts.served}
        workers = self._workers.look(seen, facts)
        pieces = {each.name: self._piece(each, facts) for each in facts.served}
        return Look(
            at=facts.now,
            observation=Observation(
                cards=seen.cards,
                workers=workers if unseen is None else unseen,
                demands={
                    each.name: _demand(each, lines[each.name], facts) for each in facts.served
                },
                cramped=cramped,
            ),
            policies=[
                self._policy(each, facts, share=_share(seen, each, pieces[each.name]))
                for each in facts.served
            ],
            served={each.name: each for each in facts.served},
            waiting={
                name: line.count if isinstance(line, Startable) else None
                for name, line in lines.items()
            },
            running=_running(facts),
            tickets={each.name: _tickets(each.queue) for each in facts.served},
            pieces=pieces,
            start_s={
                each.name: start_s(
                    facts.peaks[each.revision_id], load_timeout_s=each.load_timeout_s
                )
                for each in facts.served
            },
            problems=(*seen.problems, *_wrong_weights(facts.served)),
            placing=_placing(seen, facts),
        )

    def with_jobs(self, served: Sequence[Served]) -> set[UUID]:
        """The revisions for which jobs wait, whether they may start or not; cheap. Raises
        DatabaseError."""
        return demand.with_claimable([each.revision_id for each in served], now=database_now())

    def _see(self) -> tuple[Seen, Unread | None]:
        try:
            return self._target.look(), None
        except Unseen as error:
            return Seen(), Unread(why=str(error))

    def _piece(self, served: Served, facts: Facts) -> Piece:
        return piece_of(
            facts.peaks[served.revision_id],
            wish=facts.wishes[served.model_id],
            flavour=self._flavour,
        )

    def _policy(self, served: Served, facts: Facts, *, share: float) -> Policy:
        wish = facts.wishes[served.model_id] if served.live else Wish()
        work = facts.work[served.name]
        return Policy(
            model=served.name,
            share=share,
            cold_s=SPAWN_S + work.cold_s(load_timeout_s=served.load_timeout_s),
            lane=served.lane,  # type: ignore[arg-type]  # the catalog's choices
            omega=wish.omega * self._haste,
            # A worker of the lane `bulk` leaves with its job, and where there is none at once.
            min_workers=0 if served.lane == "bulk" else wish.least,
            max_workers=wish.most,
            floor=Floor(workers=wish.right, after_s=wish.floor_after_s, step_s=wish.floor_step_s),
        )


def _share(seen: Seen, served: Served, piece: Piece) -> float:
    """Of a card, that a worker counts as: as long as there are some, the next is like them."""
    there = [each.share for each in seen.of(served.name) if each.holds]
    return there[0] if there else piece.request.share


def _wrong_weights(served: Sequence[Served]) -> Sequence[Problem]:
    """No worker ever loads them: it checks the same hashes first. So nothing is held for it."""
    names = {each.revision_id: each.name for each in served}
    return [
        Problem(words=words, revision=names[revision_id])
        for revision_id, sentences in wrong_weights(names).items()
        for words in sentences
    ]


def _placing(seen: Seen, facts: Facts) -> Mapping[str, Mapping[str, str | float]]:
    return {
        facts.rows[each.name].name: {"node": each.node, **dict(each.placing)}
        for each in seen.workers
        if each.placing and each.name in facts.rows
    }


def _line(served: Served, *, seen: Seen, now: datetime) -> Startable | Unread:
    for problem in seen.problems:
        if problem.blocks and problem.revision == served.name:
            return Unread(why=problem.words)
    try:
        return demand.wanted_of(served, now=now)
    except DatabaseError as error:
        log.warning("jobs not counted", extra={"model": served.name, "reason": str(error)})
        return _uncounted(error)
    except Exception as error:  # of its own rows: the others are decided about all the same
        note("scale: line", error, of=served.name)
        return _uncounted(error)


def _uncounted(error: Exception) -> Unread:
    return Unread(why=f"its jobs could not be counted ({type(error).__name__})")


def _demand(served: Served, line: Startable | Unread, facts: Facts) -> Demand | Unread:
    if isinstance(line, Unread):
        return line
    oldest_s = (facts.now - line.oldest).total_seconds() if line.oldest else 0.0
    return Demand(
        waiting=tuple(facts.work[served.name].of_line(line.count)),
        oldest_s=max(0.0, oldest_s),
        arrived=facts.arrived.get(served.revision_id, 0),
        hint=_hint(served, facts),
    )


def _hint(served: Served, facts: Facts) -> views.Hint | None:
    """What is announced of the revision that a coming call would be bound to. None for a model
    that is paused or crashes."""
    hint = facts.hints.get(served.model) if served.live else None
    if hint is None or pauses.may_serve(served.revision_id, now=facts.now) is not None:
        return None
    return views.Hint(running=hint.running, queued=hint.queued, in_s=hint.in_s)


def _running(facts: Facts) -> Mapping[str, int]:
    at_work = [run.revision_id for run in facts.runs.values()]
    return {each.name: at_work.count(each.revision_id) for each in facts.served}


def _tickets(queue: str) -> Tickets:
    try:
        publisher = tickets.publisher()
        return Tickets(ready=publisher.ready(queue), unacked=publisher.unacked(queue))
    except BrokerUnavailable:
        return Tickets()
