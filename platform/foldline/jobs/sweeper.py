"""The net under the protocol: lost leases, expired jobs, missing tickets.

One sweeper leads; others stand by. Everything it does is a guarded update, so that two at
once would do no harm, only work.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import connection

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.services import bury_silent_workers, held_tickets, present_workers
from foldline.jobs import pauses, services, tickets
from foldline.jobs.checkpoints import discard_ended
from foldline.jobs.claims import Fence
from foldline.jobs.faults import DATABASE_AWAY, contained, note
from foldline.jobs.leading import Leader
from foldline.jobs.line import startable
from foldline.jobs.models import Job
from foldline.jobs.retention import clean
from foldline.jobs.states import State
from foldline.jobs.tickets import BrokerUnavailable

log = logging.getLogger(__name__)

DUTY = "sweep"
TICKETS_A_TICK = 200
JOBS_A_TICK = 500
LOOK_S = 1.0
CLEAN_EVERY_S = 3600.0
SURELY_REPORTED_S = 60.0  # by then a worker has said which ticket it holds


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What one sweep did."""

    led: bool = True
    lost: int = 0
    expired: int = 0
    published: int = 0
    withdrawn: int = 0
    forgotten: int = 0
    removed: int = 0


class Sweeper:
    """Sweeps every `settings.SWEEP_S` seconds while it leads."""

    def __init__(self, *, name: str = "") -> None:
        self._leads = Leader(DUTY, keep_s=3 * settings.SWEEP_S, name=name)
        self._contact_since: float | None = None
        self._contact_at = 0.0
        self._redis_run = ""
        self._clean_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Sweep until `stop` is set, and at once when Redis has restarted; then let the next one
        begin. A database that is away ends no sweeper."""
        while not stop.is_set():
            try:
                swept = contained("sweep", self.sweep, otherwise=Swept())
            except DATABASE_AWAY as error:
                self._contact_since = None
                log.warning("sweep failed", extra={"reason": str(error)})
            else:
                if swept not in (Swept(), Swept(led=False)):
                    log.info("swept", extra=swept.__dict__)
            connection.close()
            self._wait(stop)
        self._leads.end()
        connection.close()

    def _wait(self, stop: threading.Event) -> None:
        """Until the next tick is due, or Redis is another one than before."""
        due = time.monotonic() + settings.SWEEP_S
        while time.monotonic() < due and not stop.wait(min(LOOK_S, settings.SWEEP_S)):
            if contained("sweep: Redis", self._redis_restarted, otherwise=False):
                log.warning("Redis has restarted")
                return

    def _redis_restarted(self) -> bool:
        try:
            seen = tickets.publisher().run_id()
        except BrokerUnavailable:
            return False
        known, self._redis_run = self._redis_run, seen
        return known not in ("", seen)

    def sweep(self) -> Swept:
        """One tick. Raises DatabaseError; Redis being away only skips the tickets, and a part
        that fails none of the others."""
        now = database_now()
        self._note_contact()
        if not self._leads():
            return Swept(led=False)
        lost = requeue_lost(now=now) if self._may_judge_leases() else 0
        expired = expire_due(now=now)
        silent = now - timedelta(seconds=3 * settings.LEASE_S)
        contained("sweep: workers", lambda: bury_silent_workers(before=silent), otherwise=None)
        contained("sweep: checkpoints", discard_ended, otherwise=0)
        pauses.watch_starts(now=now)
        removed = contained("sweep: retention", lambda: self._clean(now), otherwise=0)
        settled = settle_tickets(now=now)
        return replace(settled, lost=lost, expired=expired, removed=removed)

    def _clean(self, now: datetime) -> int:
        """Once an hour, take away what has been kept long enough."""
        if time.monotonic() < self._clean_at:
            return 0
        self._clean_at = time.monotonic() + CLEAN_EVERY_S
        removed = clean(now=now)
        return removed.jobs + removed.files

    def _note_contact(self) -> None:
        """The database has answered. After a pause in which leases could pass, contact begins
        anew: a statement that hung while the database stalled hung for the workers, too."""
        now = time.monotonic()
        pause: float = max(settings.LEASE_S - settings.HEARTBEAT_S, 2 * settings.SWEEP_S)
        if self._contact_since is None or now - self._contact_at > pause:
            self._contact_since = now
        self._contact_at = now

    def _may_judge_leases(self) -> bool:
        """False until contact with the database has lasted a lease and two heartbeats.

        While the database was away nobody could prolong a lease: judging by what it says
        right afterwards would take every running job from its worker.
        """
        grace: float = settings.LEASE_S + 2 * settings.HEARTBEAT_S
        return self._contact_since is not None and (time.monotonic() - self._contact_since >= grace)


def requeue_lost(*, now: datetime) -> int:
    """Put jobs whose worker fell silent back in line, or end them."""
    late = Job.objects.filter(state=State.RUNNING, lease_until__lt=now).values_list(
        "id", "attempt", "owner"
    )[:JOBS_A_TICK]
    outcomes = [
        contained(
            "sweep: leases",
            partial(services.lose, Fence(job_id=job_id, attempt=attempt, owner=owner), now=now),
            otherwise=None,
            of=job_id,
        )
        for job_id, attempt, owner in late
    ]
    return sum(outcome is not None for outcome in outcomes)


def expire_due(*, now: datetime) -> int:
    """End waiting jobs whose time to start has passed."""
    due = Job.objects.filter(state=State.QUEUED, start_by__lte=now).values_list("id", flat=True)
    return sum(
        contained(
            "sweep: expiry", partial(services.expire, job_id, now=now), otherwise=False, of=job_id
        )
        for job_id in due[:JOBS_A_TICK]
    )


def settle_tickets(*, now: datetime) -> Swept:
    """Send missing tickets, take back those nobody needs, forget those of dead workers."""
    swept = Swept()
    for revision in Revision.objects.exclude(state="draft").select_related("model"):
        queue = tickets.queue_name(revision.model.name, number=revision.number)
        try:
            published, withdrawn = _settle_queue(queue, revision, now=now)
            forgotten = _forget_dead(queue, revision)
        except BrokerUnavailable as error:
            log.warning("tickets not settled", extra={"queue": queue, "reason": str(error)})
            break
        except DATABASE_AWAY:
            raise
        except Exception as error:
            note("sweep: tickets", error, of=queue)
            continue
        swept = replace(
            swept,
            published=swept.published + published,
            withdrawn=swept.withdrawn + withdrawn,
            forgotten=swept.forgotten + forgotten,
        )
    return swept


def _settle_queue(queue: str, revision: Revision, *, now: datetime) -> tuple[int, int]:
    """(tickets sent, tickets taken back)"""
    # Read in this order: jobs that come or go in between make the surplus look smaller.
    ready = tickets.publisher().ready(queue)
    waiting = startable(revision.id, model_id=revision.model_id, now=now)
    bound = pauses.room(revision.id, now=now)
    if bound is not None:
        waiting = min(waiting, bound)
    missing = min(TICKETS_A_TICK, waiting - ready)
    if missing > 0:
        tickets.publisher().publish(queue, count=missing)
        return missing, 0
    surplus = ready - waiting - present_workers(revision.id)
    if surplus > 0:
        tickets.publisher().withdraw(queue, count=surplus)
        return 0, surplus
    return 0, 0


def _forget_dead(queue: str, revision: Revision) -> int:
    """Forget the tickets that only a dead worker can have held.

    Left alone they would come back when their visibility timeout passes, find nothing, and
    make every count of this queue wrong until then.
    """
    taken = tickets.publisher().held(queue, since=time.time() - SURELY_REPORTED_S)
    dead = taken - held_tickets(revision.id) if taken else set()
    tickets.publisher().forget(queue, dead)
    return len(dead)
