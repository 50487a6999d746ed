"""`GET /v1/batches/{id}?wait=any|all`, with a small stand-in for what Django answers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

import pytest
from pytest_django import Settings

from foldline.jobs import services
from foldline.jobs.models import Job
from foldline.numbers import MOST_WAIT_S
from foldline.tenants.models import Tenant
from foldline.tenants.services import authenticate
from foldline.tenants.visits import count_visit
from foldline.waiting import app
from foldline.waiting.room import Room
from foldline.wsgi import application
from tests.foldline.waiting.conftest import Callers, Worker, woken

BATCH = "0199d3b4-0000-7000-8000-00000000ba7c"


def with_batch(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Django, and one batch of all jobs there are."""
    if environ["PATH_INFO"] != f"/v1/batches/{BATCH}":
        return application(environ, start_response)
    key = environ["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    count_visit(authenticate(key), method="GET", environ=environ)
    if parse_qs(environ["QUERY_STRING"]).get("timeout_s", ["1"])[0] == "x":
        start_response("400 Bad Request", [("Content-Type", "application/problem+json")])
        return [b'{"code":"invalid_request"}']
    found = list(Job.objects.order_by("id"))
    jobs = [
        {"index": index, "job": {"id": str(job.id), "state": job.state}, "error": None}
        for index, job in enumerate(found)
    ]
    broken = {"index": len(jobs), "job": None, "error": {"code": "invalid_input"}}
    tag = '"' + "-".join(job.state for job in found) + '"'
    if environ.get("HTTP_IF_NONE_MATCH") == tag:
        start_response("304 Not Modified", [("ETag", tag)])
        return []
    start_response("200 OK", [("Content-Type", "application/json"), ("ETag", tag)])
    return [json.dumps({"id": BATCH, "jobs": [*jobs, broken]}).encode()]


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.Door.__init__, "__defaults__", (with_batch,))


@pytest.fixture
def jobs(door: Callers) -> list[UUID]:
    return [door.new_job(sequence="E" * (n + 1)) for n in range(3)]


def states(body: Any) -> list[str]:
    return [each["job"]["state"] for each in body["jobs"] if each["job"]]


def test_any_answers_once_one_has_ended(
    door: Callers, jobs: list[UUID], worker: Worker, tenant: Tenant
) -> None:
    asked = door.meanwhile(lambda: door.get(f"/v1/batches/{BATCH}?wait=any&timeout_s=30"))
    worker.claim()  # to run is no end
    services.cancel(tenant_id=tenant.id, job_id=jobs[2])
    assert states(woken(asked).body) == ["running", "queued", "cancelled"]


def test_any_means_one_that_was_open_when_asked(
    door: Callers, jobs: list[UUID], tenant: Tenant
) -> None:
    services.cancel(tenant_id=tenant.id, job_id=jobs[0])
    asked = door.meanwhile(lambda: door.get(f"/v1/batches/{BATCH}?wait=any"))
    services.cancel(tenant_id=tenant.id, job_id=jobs[1])
    assert states(woken(asked).body) == ["cancelled", "cancelled", "queued"]


def test_all_answers_once_the_last_has_ended(
    door: Callers, jobs: list[UUID], tenant: Tenant
) -> None:
    asked = door.meanwhile(lambda: door.get(f"/v1/batches/{BATCH}?wait=all&timeout_s=30"))
    for job_id in jobs:
        assert not asked.done()
        services.cancel(tenant_id=tenant.id, job_id=job_id)
    assert states(woken(asked).body) == ["cancelled"] * 3


def test_it_answers_as_things_stand_when_the_time_is_over(door: Callers, jobs: list[UUID]) -> None:
    asked = door.get(f"/v1/batches/{BATCH}?wait=all&timeout_s=1")
    assert (asked.answer.status_code, states(asked.body)) == (200, ["queued"] * 3)
    assert 1 <= asked.seconds < MOST_WAIT_S


def test_with_the_present_etag_it_waits_all_the_same(
    door: Callers, jobs: list[UUID], tenant: Tenant
) -> None:
    url = f"/v1/batches/{BATCH}?wait=any"
    tag = door.get(f"/v1/batches/{BATCH}").answer.headers["etag"]
    assert door.get(f"{url}&timeout_s=1", If_None_Match=tag).answer.status_code == 304
    asked = door.meanwhile(lambda: door.get(url, If_None_Match=tag))
    services.cancel(tenant_id=tenant.id, job_id=jobs[1])
    assert states(woken(asked).body) == ["queued", "cancelled", "queued"]


def test_a_batch_whose_jobs_have_ended_answers_at_once(
    door: Callers, jobs: list[UUID], tenant: Tenant
) -> None:
    for job_id in jobs:
        services.cancel(tenant_id=tenant.id, job_id=job_id)
    assert door.get(f"/v1/batches/{BATCH}?wait=any").seconds < MOST_WAIT_S


def test_what_django_refuses_is_refused_at_once(door: Callers, jobs: list[UUID]) -> None:
    for query, status in (("wait=any&timeout_s=x", 400), ("wait=some", 200), ("wait=", 200)):
        asked = door.get(f"/v1/batches/{BATCH}?{query}")
        assert (asked.answer.status_code, asked.seconds < MOST_WAIT_S) == (status, True)
    assert door.get("/v1/batches/nobodys?wait=any").answer.status_code == 404


def test_ended_waits_for_the_ends_of_jobs_without_asking_django(
    door: Callers, jobs: list[UUID], tenant: Tenant
) -> None:
    waited = door.in_room(lambda room: room.ended(jobs[:2], mode="all", timeout_s=3600))
    for job_id in jobs[:2]:
        services.cancel(tenant_id=tenant.id, job_id=job_id)
    assert waited.result(60) == frozenset(jobs[:2])
    nobody = door.in_room(lambda room: room.ended([], mode="any", timeout_s=3600))
    assert nobody.result(60) == frozenset()
    over = door.in_room(lambda room: room.ended(jobs, mode="all", timeout_s=0.2))
    assert over.result(60) == frozenset(jobs[:2])


def test_those_who_look_at_the_same_time_are_answered_by_one_reading(
    door: Callers, jobs: list[UUID], settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DEBUG = True  # Django then logs every statement

    async def look(room: Room) -> None:
        waits = (room.ended(jobs, mode="all", timeout_s=0) for _ in range(20))
        await asyncio.gather(*waits)

    with caplog.at_level(logging.DEBUG, logger="django.db.backends"):
        door.in_room(look).result(60)
    readings = [each for each in caplog.messages if "left join jobs_job run" in each]
    # The room looks for itself now and then, too.
    assert 1 <= len(readings) <= 10
