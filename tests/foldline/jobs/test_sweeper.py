from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.fleet.services import register
from foldline.ids import uuid7
from foldline.jobs import services, tickets, wire
from foldline.jobs.breaker import FAILED_STARTS, Cause, read
from foldline.jobs.models import Attempt, Job, QueueState
from foldline.jobs.services import claim
from foldline.jobs.sweeper import TICKETS_A_TICK, Sweeper, Swept
from foldline.tenants.models import Tenant
from tests.redis_server import RedisServer, running_redis
from tests.worker_process import wait_until

MakeJob = Callable[..., UUID]
QUEUE = "foldline.sleepy.r1"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def server(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RedisServer]:
    """A Redis that is there, however slow this machine is."""
    monkeypatch.setattr(wire, "SOCKET_TIMEOUT_S", 30.0)
    with running_redis(tmp_path) as server:
        settings.REDIS_URL = server.url
        settings.LEASE_S = settings.HEARTBEAT_S = settings.SWEEP_S = 0.0
        tickets.publisher.cache_clear()
        yield server
        tickets.publisher.cache_clear()


def let_the_lease_pass(job_id: UUID) -> None:
    Job.objects.filter(id=job_id).update(lease_until=database_now() - timedelta(seconds=1))


class TestLeases:
    def test_a_job_of_a_silent_worker_goes_back_in_line(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        job_id = make_job()
        claim(revision_id=revision.id, owner="w1")
        let_the_lease_pass(job_id)
        assert Sweeper().sweep().lost == 1
        assert Job.objects.get().state == "queued"
        assert Attempt.objects.get().outcome == "worker_lost"
        assert tickets.publisher().ready(QUEUE) == 1

    def test_a_worker_that_beats_keeps_its_job(
        self, make_job: MakeJob, revision: Revision, settings: Settings
    ) -> None:
        make_job()
        settings.LEASE_S = 60
        (job,) = claim(revision_id=revision.id, owner="w1")
        services.heartbeat(job.fence)
        settings.LEASE_S = 0
        assert Sweeper().sweep().lost == 0
        assert Job.objects.get().state == "running"

    def test_three_lost_workers_make_a_job_poison(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        job_id = make_job()
        for _ in range(3):
            claim(revision_id=revision.id, owner="w1")
            let_the_lease_pass(job_id)
            Sweeper().sweep()
        job = Job.objects.get()
        assert job.error is not None
        assert (job.state, job.error["code"], job.dead_letter) == ("failed", "poison", True)

    def test_no_lease_is_judged_before_contact_has_lasted_long_enough(
        self, make_job: MakeJob, revision: Revision, settings: Settings
    ) -> None:
        """After an outage of the database every lease looks lost, and none is."""
        job_id = make_job()
        claim(revision_id=revision.id, owner="w1")
        let_the_lease_pass(job_id)
        settings.LEASE_S = 20
        assert Sweeper().sweep().lost == 0
        assert Job.objects.get().state == "running"


class TestExpiry:
    def test_a_job_that_could_not_start_in_time_expires(self, make_job: MakeJob) -> None:
        make_job(start_within_s=0.000001)
        kept = make_job(start_within_s=3600.0)
        assert Sweeper().sweep().expired == 1
        gone = Job.objects.exclude(id=kept).get()
        assert gone.error is not None
        assert (gone.state, gone.error["code"]) == ("expired", "expired")
        assert Job.objects.get(id=kept).state == "queued"


class TestTickets:
    def test_missing_tickets_are_sent(self, make_job: MakeJob) -> None:
        for _ in range(3):
            make_job()
        assert Sweeper().sweep().published == 3
        assert tickets.publisher().ready(QUEUE) == 3
        assert Sweeper().sweep().published == 0

    def test_a_tick_sends_a_bounded_number(
        self, make_job: MakeJob, owner_of_jobs: Tenant, revision: Revision
    ) -> None:
        for _ in range(TICKETS_A_TICK + 5):
            make_job()
        assert Sweeper().sweep().published == TICKETS_A_TICK

    def test_jobs_nobody_may_claim_get_no_ticket(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        Job.objects.filter(id=make_job()).update(not_before=database_now() + timedelta(hours=1))
        QueueState.objects.create(model_id=revision.model_id)
        assert Sweeper().sweep().published == 0
        make_job()
        QueueState.objects.update(paused="by an admin")
        assert Sweeper().sweep().published == 0

    def test_jobs_that_a_limit_keeps_back_get_theirs_when_it_is_raised(
        self,
        make_job: MakeJob,
        limit: Callable[..., None],
        revision: Revision,
        settings: Settings,
    ) -> None:
        for _ in range(10):
            make_job()
        settings.LEASE_S = 60.0
        claim(revision_id=revision.id, owner="w1")
        limit(running=2)
        ticks = [Sweeper().sweep().published for _ in range(3)]
        assert ticks == [1, 0, 0], "further ticks send no more"
        limit(running=4)
        assert Sweeper().sweep().published == 2

    def test_jobs_of_a_tenant_get_theirs_when_it_is_switched_on_again(
        self, make_job: MakeJob
    ) -> None:
        make_job()
        Tenant.objects.update(active=False)
        assert Sweeper().sweep().published == 0
        Tenant.objects.update(active=True)
        assert Sweeper().sweep().published == 1

    def test_surplus_tickets_are_taken_back_but_one_for_each_worker(
        self, make_job: MakeJob, revision: Revision
    ) -> None:
        make_job()
        register(name="w1", revision_id=revision.id, node="here", pid=1)
        Worker.objects.update(last_seen=database_now() + timedelta(hours=1))
        tickets.publisher().publish(QUEUE, count=10)
        assert Sweeper().sweep().withdrawn == 8
        assert tickets.publisher().ready(QUEUE) == 2

    def test_a_redis_that_is_away_stops_nothing_else(
        self, make_job: MakeJob, server: RedisServer
    ) -> None:
        make_job(start_within_s=0.000001)
        make_job()
        server.kill()
        swept = Sweeper().sweep()
        assert (swept.expired, swept.published) == (1, 0)

    def test_an_empty_redis_has_all_tickets_again_after_one_sweep(
        self, make_job: MakeJob, server: RedisServer
    ) -> None:
        for _ in range(4):
            make_job()
        Sweeper().sweep()
        server.kill()
        server.start()
        assert tickets.publisher().ready(QUEUE) == 0
        Sweeper().sweep()
        assert tickets.publisher().ready(QUEUE) == 4


class TestDeadWorkersTickets:
    """Tickets a dead worker held are dropped; those of living ones are theirs."""

    def held_ticket(self, server: RedisServer, name: str, *, age_s: float) -> None:
        with server.client() as client:
            client.hset(f"unacked.{QUEUE}", name, "[]")
            client.zadd(f"unacked_index.{QUEUE}", {name: time.time() - age_s})

    def test_they_are_forgotten(self, revision: Revision, server: RedisServer) -> None:
        register(name="w1", revision_id=revision.id, node="here", pid=1)
        Worker.objects.update(last_seen=database_now() + timedelta(hours=1), ticket="living")
        for name in ("living", "dead"):
            self.held_ticket(server, name, age_s=1000)
        self.held_ticket(server, "young", age_s=1)
        assert Sweeper().sweep().forgotten == 1
        with server.client() as client:
            assert client.hkeys(f"unacked.{QUEUE}") == [b"living", b"young"]
            assert client.zcard(f"unacked_index.{QUEUE}") == 2

    def test_a_worker_that_is_gone_holds_nothing(
        self, revision: Revision, server: RedisServer
    ) -> None:
        register(name="w1", revision_id=revision.id, node="here", pid=1)
        Worker.objects.update(state="gone", ticket="dead")
        self.held_ticket(server, "dead", age_s=1000)
        assert Sweeper().sweep().forgotten == 1


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_restarted_is_noticed_before_the_next_tick(
    make_job: MakeJob, server: RedisServer, settings: Settings
) -> None:
    settings.SWEEP_S = 3600.0
    stop, sweeper = threading.Event(), Sweeper()
    thread = threading.Thread(target=sweeper.run, args=(stop,))
    make_job()
    thread.start()
    try:
        wait_until(lambda: tickets.Publisher(server.url).ready(QUEUE) == 1)
        wait_until(lambda: sweeper._redis_run, what="the sweeper has seen this Redis")
        server.kill()
        server.start()
        wait_until(lambda: tickets.Publisher(server.url).ready(QUEUE) == 1)
    finally:
        stop.set()
        thread.join()


def test_one_sweeper_leads(settings: Settings) -> None:
    settings.SWEEP_S = 5
    assert Sweeper(name="first").sweep().led
    assert Sweeper(name="second").sweep() == Swept(led=False)
    assert Sweeper(name="first").sweep().led


def test_workers_that_fell_silent_are_gone(revision: Revision) -> None:
    register(name="w1", revision_id=revision.id, node="here", pid=1)
    Worker.objects.update(last_seen=database_now() - timedelta(hours=1), current_job=revision.id)
    Sweeper().sweep()
    worker = Worker.objects.get()
    assert (worker.state, worker.current_job) == ("gone", None)


def test_a_model_whose_starts_keep_failing_is_noticed(revision: Revision) -> None:
    for number in range(FAILED_STARTS):
        register(name=f"w{number}", revision_id=revision.id, node="here", pid=1)
    Worker.objects.update(failure={"code": "load_failed", "message": "no such file"})
    Sweeper().sweep()
    assert read(QueueState.objects.get().breaker).cause is Cause.STARTS


def test_what_ended_jobs_had_saved_is_removed(tmp_path: Path, settings: Settings) -> None:
    settings.HOME = tmp_path
    left = tmp_path / "checkpoints" / str(uuid7())
    left.mkdir(parents=True)
    Sweeper().sweep()
    assert not left.exists()
