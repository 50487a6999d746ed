"""When a sweeper may say that a lease was lost: once every worker had the time to beat."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.conf import settings

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.jobs import services, sweeper
from foldline.jobs.models import Job, Leadership
from foldline.jobs.sweeper import Sweeper

pytestmark = pytest.mark.django_db


class Clock:
    """The sweeper's own clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def pass_ticks(self, watched: Sweeper, seconds: float) -> None:
        for _ in range(int(seconds // settings.SWEEP_S) + 1):
            self.now += settings.SWEEP_S
            watched.sweep()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sweeper, "time", clock)
    monkeypatch.setattr(sweeper, "settle_tickets", lambda now: sweeper.Swept())
    monkeypatch.setattr(sweeper, "discard_ended", lambda: 0)
    return clock


@pytest.fixture
def late(make_job: Callable[..., UUID], revision: Revision) -> Callable[[], Job]:
    """A job that runs, and whose lease has passed."""
    job_id = make_job()
    services.claim(revision_id=revision.id, owner="w1")

    def job() -> Job:
        return Job.objects.get(id=job_id)

    Job.objects.filter(id=job_id).update(lease_until=database_now() - timedelta(seconds=1))
    return job


GRACE_S = settings.LEASE_S + 2 * settings.HEARTBEAT_S


def test_a_new_sweeper_gives_every_worker_the_time_to_beat(
    clock: Clock, late: Callable[[], Job]
) -> None:
    watched = Sweeper()
    clock.pass_ticks(watched, GRACE_S - settings.SWEEP_S)
    assert late().state == "running"
    clock.pass_ticks(watched, settings.SWEEP_S)
    assert late().state == "queued"


def test_a_database_that_stalled_costs_no_attempt_though_no_statement_failed(
    clock: Clock, late: Callable[[], Job]
) -> None:
    watched = Sweeper()
    Job.objects.update(lease_until=database_now() + timedelta(hours=1))
    clock.pass_ticks(watched, GRACE_S)
    clock.now += 180  # one statement took so long, for the workers as well
    Job.objects.update(lease_until=database_now() - timedelta(seconds=1))
    watched.sweep()
    assert late().state == "running"
    clock.pass_ticks(watched, GRACE_S)
    assert late().state == "queued"


def test_a_sweeper_that_stood_by_may_judge_as_soon_as_it_leads(
    clock: Clock, late: Callable[[], Job]
) -> None:
    leader, standby = Sweeper(name="leader"), Sweeper(name="standby")
    leader.sweep()
    clock.pass_ticks(standby, GRACE_S)
    assert late().state == "running"
    Leadership.objects.update(until=database_now() - timedelta(seconds=1))
    clock.pass_ticks(standby, 0)
    assert late().state == "queued"
