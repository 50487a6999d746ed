"""A part of a round that fails is told and counted, and the parts behind it are done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from django.db import DataError, InterfaceError, InternalError, OperationalError, connection
from django.test import Client
from pytest_django.fixtures import Settings

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.jobs import faults, tickets
from foldline.jobs.faults import contained
from foldline.jobs.models import Attempt, Fault, Job, QueueState
from foldline.jobs.services import claim
from foldline.jobs.sweeper import Sweeper
from tests.ends_after import EndsAfter
from tests.redis_server import running_redis

MakeJob = Callable[..., UUID]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    faults._told.clear()


def fails(error: Exception) -> Callable[..., int]:
    def act(*_: object, **__: object) -> int:
        raise error

    return act


def counted() -> dict[str, int]:
    return dict(Fault.objects.values_list("part", "times"))


class TestContained:
    def test_what_goes_well_is_given_and_leaves_no_trace(self) -> None:
        assert contained("part", lambda: 7, otherwise=0) == 7
        assert counted() == {}

    @pytest.mark.parametrize(
        "error",
        [
            *(KeyError("x"), OSError("no space left"), DataError("too long")),
            *(ValueError("\0"), ValueError("\ud800")),  # what a database takes as no text
        ],
    )
    def test_a_fault_is_counted_with_the_last_words(self, error: Exception) -> None:
        for _ in range(3):
            assert contained("part", fails(error), otherwise=5, of="a row") == 5
        fault = Fault.objects.get()
        assert (fault.part, fault.times) == ("part", 3)
        assert fault.words.startswith(f"{type(error).__name__}: ")
        assert fault.words.endswith("(a row)")

    def test_it_is_told_with_its_traceback_once_a_minute_for_each_row(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        for row in ("one", "two", "one"):
            contained("part", fails(KeyError("x")), otherwise=0, of=row)
        told = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert [vars(each)["of"] for each in told] == ["one", "two"]
        assert all(each.exc_info for each in told)

    @pytest.mark.parametrize(
        "error", [OperationalError("gone"), InterfaceError("closed"), InternalError("read-only")]
    )
    def test_a_database_that_is_away_is_for_the_whole_round_to_notice(
        self, error: Exception
    ) -> None:
        with pytest.raises(type(error)):
            contained("part", fails(error), otherwise=0)
        assert counted() == {}

    def test_what_cannot_be_counted_is_told_all_the_same(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(faults, "database_now", fails(OperationalError("gone")))
        assert contained("part", fails(KeyError("x")), otherwise=5) == 5
        told = [each.message for each in caplog.records]
        assert told == ["a part of a round failed", "a fault was not counted"]

    def test_an_admin_sees_what_fails_how_often_and_why(self, admin_client: Client) -> None:
        contained("sweep: tickets", fails(KeyError("x")), otherwise=0)
        page = admin_client.get("/admin/jobs/fault/").content.decode()
        assert "sweep: tickets" in page
        assert "KeyError" in page


class TestSweeping:
    @pytest.fixture(autouse=True)
    def _redis(self, tmp_path: Path, settings: Settings) -> Iterator[None]:
        with running_redis(tmp_path) as server:
            settings.REDIS_URL = server.url
            settings.LEASE_S = settings.HEARTBEAT_S = 0.0
            tickets.publisher.cache_clear()
            yield
            tickets.publisher.cache_clear()

    def test_a_queue_that_cannot_be_read_keeps_no_other_from_its_tickets(
        self, make_job: MakeJob, revision: Revision, other_revision: Revision
    ) -> None:
        make_job(model_id=other_revision.model_id, revision_id=other_revision.id)
        broken = {"breaker": {"of": "another release"}}
        QueueState.objects.update_or_create(model_id=revision.model_id, defaults=broken)
        assert Sweeper().sweep().published == 1
        assert counted() == {"sweep: starts": 1, "sweep: tickets": 1}

    def test_a_job_that_cannot_be_taken_back_keeps_no_other_from_it(
        self, make_job: MakeJob, revision: Revision, settings: Settings
    ) -> None:
        settings.SWEEP_S = 0.0
        first, second = make_job(), make_job()
        for owner in ("w1", "w2"):
            claim(revision_id=revision.id, owner=owner)
        Job.objects.update(lease_until=database_now() - timedelta(seconds=1))
        Attempt.objects.filter(job_id=first).delete()
        assert Sweeper().sweep().lost == 1
        assert Job.objects.get(id=second).state == "queued"
        assert counted() == {"sweep: leases": 1}

    def test_a_job_that_cannot_expire_keeps_no_other_from_it(
        self, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = make_job(start_within_s=1e-6), make_job(start_within_s=1e-6)
        Job.objects.filter(id=second).update(attached_to=first)
        owed = "foldline.jobs.endings.owe_ticket"
        monkeypatch.setattr(owed, fails(KeyError("a bug")))
        assert Sweeper().sweep().expired == 1
        assert Job.objects.get(id=second).state == "expired"
        assert counted() == {"sweep: expiry": 1}

    def test_a_disk_that_is_full_keeps_nobody_from_a_ticket(
        self, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_job()
        full = OSError(28, "No space left on device")
        monkeypatch.setattr("foldline.jobs.sweeper.clean", fails(full))
        assert Sweeper().sweep().published == 1
        assert counted() == {"sweep: retention": 1}

    @pytest.mark.parametrize(
        ("step", "part"),
        [("bury_silent_workers", "sweep: workers"), ("discard_ended", "sweep: checkpoints")],
    )
    def test_clearing_away_that_fails_keeps_nobody_from_a_ticket(
        self, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, step: str, part: str
    ) -> None:
        make_job()
        monkeypatch.setattr(f"foldline.jobs.sweeper.{step}", fails(KeyError("a bug")))
        assert Sweeper().sweep().published == 1
        assert counted() == {part: 1}

    def test_a_redis_that_does_not_say_which_it_is_ends_no_sweeper(
        self, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("foldline.jobs.sweeper.connection.close", lambda: None)
        monkeypatch.setattr(tickets.Publisher, "run_id", fails(KeyError("run_id")))
        make_job()
        Sweeper().run(EndsAfter(3))
        assert counted() == {"sweep: Redis": 2}
        assert tickets.publisher().ready("foldline.sleepy.r1") == 1

    def test_a_round_that_fails_as_a_whole_ends_no_sweeper(
        self, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("foldline.jobs.sweeper.connection.close", lambda: None)
        monkeypatch.setattr("foldline.jobs.sweeper.expire_due", fails(KeyError("a bug")))
        Sweeper().run(EndsAfter(1))
        assert counted() == {"sweep": 1}

    @pytest.mark.django_db(transaction=True)
    def test_a_database_that_only_reads_is_no_contact_that_leases_are_judged_by(
        self, make_job: MakeJob, revision: Revision, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A standby, while another server takes over: no worker can prolong its lease there."""
        if connection.vendor != "postgresql":
            pytest.skip("SQLite says so with an OperationalError")
        monkeypatch.setattr("foldline.jobs.sweeper.connection.close", lambda: None)
        sweeper = Sweeper()
        sweeper.sweep()
        assert sweeper._contact_since is not None
        with connection.cursor() as cursor:
            cursor.execute("set default_transaction_read_only = on")
            try:
                sweeper.run(EndsAfter(1))
            finally:
                cursor.execute("set default_transaction_read_only = off")
        assert sweeper._contact_since is None
        assert counted() == {}
