"""Who waits for a job hears of each change, after it is committed; nobody else pays for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from django.db import transaction
from pytest_django import Settings

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import job_error
from foldline.jobs import news, services, wire
from foldline.jobs.claims import Fence
from foldline.jobs.models import Job
from foldline.tenants.models import Tenant
from tests.foldline.jobs.conftest import MakeJob
from tests.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.django_db(transaction=True)

WITHIN_S = 30.0
CHANGES = 100


class Listener:
    """Hears what is told of jobs."""

    def __init__(self, server: RedisServer) -> None:
        self._client = server.client()
        self._pubsub = self._client.pubsub()  # type: ignore[no-untyped-call]  # redis has none
        self._pubsub.subscribe(news.CHANNEL)
        assert self._pubsub.get_message(timeout=WITHIN_S) is not None

    def heard(self) -> list[UUID]:
        """Since the last time; a message to itself marks the end."""
        self._client.publish(news.CHANNEL, b"end")
        told: list[UUID] = []
        while (message := self._pubsub.get_message(timeout=WITHIN_S)) is not None:
            if message["data"] == b"end":
                return told
            told.append(UUID(bytes=message["data"]))
        raise AssertionError("no end")

    def close(self) -> None:
        self._pubsub.close()
        self._client.close()


@pytest.fixture
def redis(tmp_path: Path, settings: Settings) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as server:
        settings.EVENTS_URL = server.url
        yield server


@pytest.fixture
def listener(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Of a Redis that is there, however slow this machine is."""
    monkeypatch.setattr(wire, "SOCKET_TIMEOUT_S", WITHIN_S)
    listener = Listener(redis)
    yield listener
    listener.close()


def claim(revision: Revision) -> Fence:
    (claimed,) = services.claim(revision_id=revision.id, owner="w")
    return claimed.fence


def cancel(job_id: UUID) -> None:
    services.cancel(tenant_id=Tenant.objects.get().id, job_id=job_id)


def test_a_new_job_is_no_news_and_neither_is_an_answer_from_the_cache(
    make_job: MakeJob, revision: Revision, listener: Listener
) -> None:
    run = make_job(fingerprint="f" * 64)
    assert listener.heard() == []
    services.finish(claim(revision), result={})
    assert set(listener.heard()) == {run}
    make_job(fingerprint="f" * 64)
    assert listener.heard() == []


def test_claim_progress_failure_and_end_are_news(
    make_job: MakeJob, revision: Revision, listener: Listener
) -> None:
    job_id = make_job()
    for _ in range(2):
        fence = claim(revision)
        assert listener.heard() == [job_id]
        services.progress(fence, fraction=0.5)
        assert listener.heard() == [job_id]
        services.fail(fence, error=job_error("worker_lost"))
        assert listener.heard() == [job_id]
    services.finish(claim(revision), result={})
    assert set(listener.heard()) == {job_id}


def test_a_cancel_is_news_when_asked_and_when_done(
    make_job: MakeJob, revision: Revision, listener: Listener
) -> None:
    job_id = make_job()
    fence = claim(revision)
    listener.heard()
    cancel(job_id)
    assert listener.heard() == [job_id]
    cancel(job_id)
    assert listener.heard() == []  # asked twice, changed once
    services.stopped(fence)
    assert listener.heard() == [job_id]


def test_a_lost_lease_and_an_expiry_are_news(
    make_job: MakeJob, revision: Revision, listener: Listener
) -> None:
    lost, late = make_job(), make_job()
    fence = claim(revision)
    listener.heard()
    now = database_now()
    Job.objects.filter(id=lost).update(lease_until=now)
    services.lose(fence, now=database_now())
    assert listener.heard() == [lost]
    Job.objects.filter(id=late).update(start_by=now)
    services.expire(late, now=database_now())
    assert listener.heard() == [late]


def test_those_attached_to_a_run_hear_of_its_end_and_of_its_heir(
    make_job: MakeJob, revision: Revision, listener: Listener
) -> None:
    run, heir, last = (make_job(fingerprint="f" * 64) for _ in range(3))
    assert set(listener.heard()) == {run}  # others joined: its deadlines may be others now
    fence = claim(revision)
    listener.heard()
    cancel(run)
    assert set(listener.heard()) == {run, heir}
    services.finish(fence, result={})
    assert set(listener.heard()) == {heir, last}


def _cancel_and_fail(job_id: UUID) -> None:
    cancel(job_id)
    raise ZeroDivisionError


def test_news_is_told_after_the_commit_and_not_of_what_was_undone(
    make_job: MakeJob, revision: Revision, listener: Listener
) -> None:
    job_id = make_job()
    with transaction.atomic():
        cancel(job_id)
        assert listener.heard() == []
    assert listener.heard() == [job_id]
    other = make_job()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        _cancel_and_fail(other)
    assert listener.heard() == []


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_without_redis_a_change_waits_for_no_more_than_the_breaker_allows(
    make_job: MakeJob, revision: Revision, redis: RedisServer, how: str
) -> None:
    make_job()
    fence = claim(revision)

    def seconds_of_changes() -> float:
        began = time.monotonic()
        for step in range(CHANGES):
            services.progress(fence, fraction=step / CHANGES)
        return time.monotonic() - began

    with_redis_s = seconds_of_changes()
    getattr(redis, how)()
    try:
        # Else each of them would wait for its time limit.
        assert seconds_of_changes() < 2 * with_redis_s + CHANGES * wire.SOCKET_TIMEOUT_S / 2
        services.finish(fence, result={})
    finally:
        if how == "freeze":
            redis.thaw()
