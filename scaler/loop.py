"""Look, decide, act, and keep what was decided: round after round while this scaler leads."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from django.db import connection

from foldline.fleet.policies import Decided, latest_decisions, record
from foldline.fleet.services import note_placing
from foldline.jobs.demand import Served, claimable_ids
from foldline.jobs.faults import DATABASE_AWAY, contained
from scaler.brain.decision import decide
from scaler.brain.plan import Decision, Memory, Plan
from scaler.brain.views import Worker
from scaler.probe import leave_sign
from scaler.sources import Look, Sources, Tickets
from scaler.targets.base import Prepares, Problem, Report, Revision, Target, Wanted

log = logging.getLogger(__name__)

TICK_S = 2.0
WAKE_S = 0.5
PREPARE_S = 30.0
"""Weights are seen to no more often than this."""
AHEAD = ("hot", "hourly")
"""The tiers whose weights belong on the node before a job comes."""
NUMBER = re.compile(r"[0-9]+")

Describe = Callable[[Served], Revision]
"""What a target must know to run workers of a revision."""


def plain(served: Served) -> Revision:
    """A revision as processes need it: no image."""
    return Revision(
        model=served.model,
        number=served.number,
        lane=served.lane,  # type: ignore[arg-type]  # the catalog's choices
        threads=served.threads,
        memory_mb=served.memory_mb,
        load_timeout_s=served.load_timeout_s,
        run_timeout_s=served.run_timeout_s,
    )


class Loop:
    """One scaler. `leads` is asked before each round: who does not lead only stands by.

    `news` tells between rounds that something has changed, such as a worker that has ended.
    `own_jobs`: the lane `bulk` gets a worker for each job, as a cluster's Job.
    """

    def __init__(
        self,
        target: Target,
        sources: Sources,
        *,
        leads: Callable[[], bool],
        describe: Describe = plain,
        news: Callable[[], bool] = lambda: False,
        own_jobs: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._sources = target, sources
        self._leads, self._describe, self._news = leads, describe, news
        self._own_jobs, self._clock = own_jobs, clock
        self._memory = Memory()
        self._without: Sequence[Served] = ()
        self._waited_for: set[UUID] = set()
        self._told: set[tuple[str, str]] = set()
        self._cramped: frozenset[str] = frozenset()
        self._prepared_at = -math.inf
        self._ahead = Report()
        self._placed: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        """Round after round until `stop` is set. A database that is away ends no scaler. One
        whose rounds fail of itself leaves no sign, so that another one leads before long."""
        while not stop.is_set():
            try:
                well = contained("scale", lambda: self._turn(stop), otherwise=False)
            except DATABASE_AWAY as error:
                log.warning("nothing decided", extra={"reason": str(error)})
                connection.close()
                stop.wait(TICK_S)
                well = True
            if well:
                leave_sign()
            else:
                stop.wait(TICK_S)

    def _turn(self, stop: threading.Event) -> bool:
        self.round()
        self._wait(stop)
        return True

    def round(self) -> Plan | None:
        """One round; None when another scaler leads. Raises DatabaseError."""
        if not self._leads():
            self._memory, self._without = Memory(), ()
            return None
        # Asked before the look: what comes in between is at worst looked at twice.
        self._waited_for = self._sources.with_jobs(self._without)
        look = self._sources.look(cramped=self._cramped)
        # A scaler that has just begun goes by what stood before it.
        before = self._memory if self._memory.desired else Memory(desired=_stood(look))
        plan, self._memory = decide(
            look.observation, policies=look.policies, memory=before, now=self._clock()
        )
        report = self._act(plan, look)
        # Who was warmed gives way to who was ordered, never the other way round.
        self._cramped = frozenset(
            each.revision
            for each in report.problems
            if each.no_room and each.revision not in self._memory.warm
        )
        ahead = self._prepare(plan, look)
        self._note_placing(look)
        warnings = [Problem(words=words) for words in plan.warnings]
        self._tell([*look.problems, *report.problems, *ahead.problems, *warnings])
        record(_decided(plan, look, report, known=before.desired), now=look.at)
        self._without = [look.served[each.model] for each in plan.decisions if not each.desired]
        return plan

    def _note_placing(self, look: Look) -> None:
        """What new workers waited for before they ran."""
        note_placing({k: v for k, v in look.placing.items() if k not in self._placed})
        self._placed = set(look.placing)

    def _act(self, plan: Plan, look: Look) -> Report:
        if not isinstance(look.observation.workers, tuple):
            return Report()  # the workers cannot be seen: nobody is touched
        # In the order of their starts: what is only announced comes last.
        starts = [each.model for each in plan.starts]
        turns = {model: starts.index(model) for model in starts}
        orders = sorted(plan.decisions, key=lambda each: turns.get(each.model, -1))
        return self._target.act([self._wanted(each, plan, look) for each in orders])

    def _prepare(self, plan: Plan, look: Look) -> Report:
        """Have the weights of what is often called where its workers may come; how that went
        last."""
        now = self._clock()
        if isinstance(self._target, Prepares) and not 0 <= now - self._prepared_at < PREPARE_S:
            self._prepared_at = now
            often = (look.served[each.model] for each in plan.decisions if each.tier in AHEAD)
            self._ahead = self._target.prepare([self._describe(e) for e in often if e.live])
        return self._ahead

    def _wanted(self, decision: Decision, plan: Plan, look: Look) -> Wanted:
        served = look.served[decision.model]
        revision = replace(
            self._describe(served),
            gpu=look.pieces[decision.model].request,
            startup_s=look.start_s[decision.model],
        )
        if look.waiting[decision.model] is None:  # it could not be read: nobody is touched
            return Wanted(revision=revision, hold=True)
        mine = {each.name for each in _workers(look) if each.model == decision.model}
        jobs: Sequence[str] = ()
        if self._own_jobs and served.lane == "bulk":
            jobs = claimable_ids(served.revision_id, now=look.at, limit=decision.desired)
        # Whoever a card is kept for comes when that one is free: what is free of others may be
        # kept for somebody else.
        promised = sum(each.model == decision.model for each in self._memory.promises)
        return Wanted(
            revision=revision,
            workers=decision.desired - promised,
            victims=tuple(each.worker for each in plan.stops if each.worker in mine),
            drains=tuple(each.worker for each in plan.drains if each.worker in mine),
            jobs=tuple(jobs),
        )

    def _wait(self, stop: threading.Event) -> None:
        """Until the next round is due, a worker has ended, or a job comes for a model without."""
        due = self._clock() + TICK_S
        while self._clock() < due and not stop.wait(WAKE_S):
            if self._news() or self._sources.with_jobs(self._without) - self._waited_for:
                return

    def _tell(self, problems: Sequence[Problem]) -> None:
        """Once for each, until it has gone and come back; seconds in it may pass."""
        now = {(each.revision, NUMBER.sub("", each.words)): each for each in problems}
        for said, problem in now.items():
            if said not in self._told:
                log.warning(problem.words, extra={"revision": problem.revision})
        self._told = set(now)


def _workers(look: Look) -> Sequence[Worker]:
    workers = look.observation.workers
    return workers if isinstance(workers, tuple) else ()


def _stood(look: Look) -> Mapping[str, int]:
    """The last decision about each revision, whoever made it."""
    last = latest_decisions([each.revision_id for each in look.served.values()])
    return {
        name: last[each.revision_id].desired
        for name, each in look.served.items()
        if each.revision_id in last
    }


def _decided(
    plan: Plan, look: Look, report: Report, *, known: Mapping[str, int]
) -> Sequence[Decided]:
    """What is to be kept. While the workers cannot be seen nobody knows the number of a model
    that nothing was decided about before, and no zero is told of it."""
    blind = not isinstance(look.observation.workers, tuple)
    starts = [each.model for each in plan.starts]
    found = []
    for each in plan.decisions:
        if blind and each.model not in known:
            continue
        counted = look.tickets.get(each.model, Tickets())
        found.append(
            Decided(
                revision_id=look.served[each.model].revision_id,
                desired=each.desired,
                actual=each.actual,
                starts=starts.count(each.model),
                tier=each.tier,
                zero_in_s=each.zero_in_s,
                reason=each.reason,
                warnings=_warnings(each.model, plan, look, report),
                waiting=look.waiting[each.model],
                running=look.running[each.model],
                ready=counted.ready,
                unacked=counted.unacked,
                piece=look.pieces[each.model].told,
            )
        )
    return found


def _warnings(revision: str, plan: Plan, look: Look, report: Report) -> tuple[str, ...]:
    mine = ("", revision)
    problems = [each.words for each in (*look.problems, *report.problems) if each.revision in mine]
    return tuple(dict.fromkeys((*plan.warnings, *problems)))
