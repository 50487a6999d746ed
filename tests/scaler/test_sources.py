"""What one look shows the brain, and what it says when something cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import MOST_WORKERS, ModelPolicy
from foldline.fleet.policies import wish
from foldline.forecasts.walker import Walker
from foldline.jobs import demand, pauses, services
from foldline.jobs.breaker import FAILED_STARTS
from foldline.jobs.models import Job, QueueState
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quotas import quotas_kept
from scaler.brain.views import Demand, Hint, Unread, Worker
from scaler.pieces import GIB
from scaler.sources import Look, Sources
from scaler.targets.base import Problem
from tests.scaler.conftest import MakeJob, MakeRow, Notebook

pytestmark = pytest.mark.django_db


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sources(target: Notebook, clock: Clock) -> Sources:
    return Sources(target, clock=clock)


def demand_of(look: Look, name: str = "toy@r1") -> Demand:
    found = look.observation.demands[name]
    assert isinstance(found, Demand), found
    return found


def workers_of(look: Look) -> dict[str, Worker]:
    assert isinstance(look.observation.workers, tuple)
    return {each.name: each for each in look.observation.workers}


def test_jobs_that_may_start_are_its_demand(sources: Sources, make_job: MakeJob) -> None:
    first = make_job()
    make_job()
    later = database_now() + timedelta(hours=1)
    Job.objects.filter(id=make_job()).update(not_before=later)
    Job.objects.filter(id=first).update(created_at=database_now() - timedelta(seconds=90))
    seen = demand_of(sources.look())
    assert len(seen.waiting) == 2
    assert 90 <= seen.oldest_s < 120


def test_jobs_beyond_their_tenants_limit_are_none(
    sources: Sources, make_job: MakeJob, tenant: Tenant
) -> None:
    make_job(), make_job(), make_job()
    Quota.objects.create(tenant=tenant, running=1)
    quotas_kept.clear()
    look = sources.look()
    assert len(demand_of(look).waiting) == look.waiting["toy@r1"] == 1


def test_a_paused_model_has_no_demand(sources: Sources, make_job: MakeJob, toy: Revision) -> None:
    make_job()
    pauses.pause(toy.model_id, reason="maintenance")
    assert demand_of(sources.look()).waiting == ()


def test_a_model_that_does_not_start_has_the_demand_of_a_trial_when_one_is_due(
    sources: Sources, make_job: MakeJob, make_row: MakeRow, toy: Revision
) -> None:
    make_job(), make_job()
    for pid in range(FAILED_STARTS):
        make_row(pid, state="gone", failure={"code": "load_failed", "message": "no weights"})
    pauses.watch_starts(now=database_now())
    assert demand_of(sources.look()).waiting == ()
    pauses.try_starts_again()
    assert len(demand_of(sources.look()).waiting) == 1
    (kept,) = QueueState.objects.values_list("breaker", flat=True)
    assert kept is not None
    assert kept["trials"] == 0, "a look takes none"


def test_estimates_come_from_the_forecast(
    sources: Sources, make_job: MakeJob, toy: Revision
) -> None:
    make_job(), make_job()
    assert demand_of(sources.look()).waiting == (5.0, 5.0), "assumed while there is no forecast"
    Walker().walk()
    walked = demand_of(sources.look()).waiting
    assert len(walked) == 2
    assert all(seconds > 0 for seconds in walked)


def test_only_what_came_since_the_last_look_has_arrived(
    sources: Sources, make_job: MakeJob
) -> None:
    make_job()
    assert demand_of(sources.look()).arrived == 0, "a new scaler takes no backlog for a burst"
    make_job(), make_job()
    assert demand_of(sources.look()).arrived == 2
    assert demand_of(sources.look()).arrived == 0


def test_a_worker_is_what_its_row_says(
    sources: Sources, target: Notebook, make_row: MakeRow, clock: Clock
) -> None:
    for place, pid in enumerate((1, 2, 3, 4), start=1):
        target.hire(pid, place=place)
    make_row(1, state="starting")
    make_row(2)
    make_row(3, ticket="in-its-hand")
    sources.look()
    clock.now += 7
    seen = workers_of(sources.look())
    states = {name: each.state for name, each in seen.items()}
    assert states == {
        "here:1": "loading",
        "here:2": "idle",
        "here:3": "busy",
        "here:4": "loading",  # it has not said anything yet
    }
    assert seen["here:2"].for_s == 7


def test_who_has_a_job_is_busy_whatever_its_row_says(
    sources: Sources, target: Notebook, make_row: MakeRow, make_job: MakeJob, toy: Revision
) -> None:
    target.hire(1)
    row = make_row(1)
    make_job()
    assert services.claim(revision_id=toy.id, owner=row.name, limit=1)
    look = sources.look()
    assert workers_of(look)["here:1"].state == "busy"
    assert workers_of(look)["here:1"].left_s > 0
    assert look.running["toy@r1"] == 1


def test_jobs_served_between_two_looks_begin_the_idle_time_anew(
    sources: Sources, target: Notebook, make_row: MakeRow, make_job: MakeJob, clock: Clock
) -> None:
    target.hire(1)
    make_row(1)
    sources.look()
    clock.now += 60
    Job.objects.filter(id=make_job()).update(state="succeeded")
    assert workers_of(sources.look())["here:1"].for_s == 0


def test_an_admins_wish_becomes_the_policy(sources: Sources, toy: Revision) -> None:
    wish(toy.model_id, min_workers=1, max_workers=3, floor_workers=2, omega=0.5)
    (policy,) = sources.look().policies
    assert (policy.min_workers, policy.max_workers, policy.omega) == (1, 3, 0.5)
    assert policy.floor.workers == 2
    wish(toy.model_id, pinned=2)
    (policy,) = sources.look().policies
    assert (policy.min_workers, policy.max_workers) == (2, 2)


def test_numbers_past_the_forms_are_bounded_where_they_are_read(
    sources: Sources, toy: Revision
) -> None:
    wish(toy.model_id)
    ModelPolicy.objects.update(max_workers=30_000, floor_workers=20_000)
    (policy,) = sources.look().policies
    assert (policy.max_workers, policy.floor.workers) == (MOST_WORKERS, MOST_WORKERS)
    ModelPolicy.objects.update(pinned=30_000)
    (policy,) = sources.look().policies
    assert (policy.min_workers, policy.max_workers) == (MOST_WORKERS, MOST_WORKERS)


def test_a_worker_counts_as_its_measured_share_once_the_model_may_share(
    target: Notebook, make_row: MakeRow, toy: Revision
) -> None:
    make_row(1, state="gone", peak_gpu_bytes=20 * GIB, card_bytes=80 * GIB)
    sources = Sources(target, flavour="hami")
    assert [each.share for each in sources.look().policies] == [1.0]
    wish(toy.model_id, sharing=True)
    look = sources.look()
    assert [each.share for each in look.policies] == [0.29]
    assert look.pieces["toy@r1"].request.memory_mib == 23 * 1024


def test_as_long_as_there_are_workers_the_next_is_like_them(
    target: Notebook, make_row: MakeRow, toy: Revision
) -> None:
    make_row(1, peak_gpu_bytes=20 * GIB, card_bytes=80 * GIB)
    target.hire(1)
    wish(toy.model_id, sharing=True)
    (policy,) = Sources(target, flavour="hami").look().policies
    assert policy.share == 1.0


def test_a_retired_revision_is_served_while_it_has_jobs_and_keeps_no_minimum(
    sources: Sources, make_job: MakeJob, toy: Revision, live_revision: Callable[..., Revision]
) -> None:
    wish(toy.model_id, min_workers=1)
    job = make_job()
    live_revision(name="toy")
    minimum = {each.model: each.min_workers for each in sources.look().policies}
    assert minimum == {"toy@r1": 0, "toy@r2": 1}
    Job.objects.filter(id=job).update(state="cancelled")
    assert [each.model for each in sources.look().policies] == ["toy@r2"]


def test_jobs_that_cannot_be_counted_are_unread_and_no_zero(
    sources: Sources, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise DatabaseError("a statement was cancelled")

    monkeypatch.setattr(demand, "wanted_of", fails)
    look = sources.look()
    found = look.observation.demands["toy@r1"]
    assert isinstance(found, Unread)
    assert "could not be counted" in found.why
    assert look.waiting["toy@r1"] is None


def test_workers_that_cannot_be_seen_are_unread(
    sources: Sources, target: Notebook, toy: Revision
) -> None:
    target.blind = "the API server did not answer"
    assert sources.look().observation.workers == Unread(why="the API server did not answer")


def test_a_blocked_revision_is_held(sources: Sources, target: Notebook, toy: Revision) -> None:
    target.problems = (Problem(words="it crashes", revision="toy@r1", blocks=True),)
    assert sources.look().observation.demands["toy@r1"] == Unread(why="it crashes")


def test_a_broker_that_is_away_changes_nothing_but_what_is_shown(
    sources: Sources, make_job: MakeJob
) -> None:
    make_job()
    look = sources.look()
    assert look.tickets["toy@r1"].ready is None
    assert len(demand_of(look).waiting) == 1


@pytest.fixture
def dock(live_revision: Callable[..., Revision]) -> Revision:
    return live_revision(name="dock")


@pytest.fixture
def announced(make_job: MakeJob, dock: Revision) -> UUID:
    """A job of `toy` that runs, whose caller means to call `dock` and `ghost` next."""
    job = make_job()
    services.claim(revision_id=Job.objects.get(id=job).revision_id, owner="w1", limit=1)
    Job.objects.filter(id=job).update(next_models=["dock", "ghost"])
    return job


def test_an_announced_call_is_a_hint_of_the_live_revision(
    sources: Sources,
    announced: UUID,
    make_job: MakeJob,
    dock: Revision,
    live_revision: Callable[..., Revision],
) -> None:
    assert demand_of(sources.look(), "dock@r1").hint == Hint(running=1)
    assert demand_of(sources.look(), "toy@r1").hint is None
    make_job(dock)
    live_revision(name="dock")
    look = sources.look()
    assert demand_of(look, "dock@r1").hint is None, "the coming call is bound to the live one"
    assert demand_of(look, "dock@r2").hint == Hint(running=1)


def test_a_paused_model_has_no_hint(sources: Sources, announced: UUID, dock: Revision) -> None:
    pauses.pause(dock.model_id, reason="maintenance")
    assert demand_of(sources.look(), "dock@r1").hint is None


def test_a_model_that_does_not_start_has_no_hint(
    sources: Sources, announced: UUID, make_row: MakeRow, dock: Revision
) -> None:
    failure = {"code": "load_failed", "message": "no weights"}
    for pid in range(FAILED_STARTS):
        make_row(pid, state="gone", revision=dock, failure=failure)
    pauses.watch_starts(now=database_now())
    assert demand_of(sources.look(), "dock@r1").hint is None


def test_announced_calls_that_cannot_be_read_hold_nothing_up(
    sources: Sources, announced: UUID, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**_: Any) -> None:
        raise DatabaseError("a statement was cancelled")

    monkeypatch.setattr("scaler.facts.hints", fails)
    make_job()
    look = sources.look()
    assert demand_of(look, "dock@r1").hint is None
    assert len(demand_of(look).waiting) == 1
