"""`GET /v1/jobs/{id}/events`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice
from uuid import UUID

import pytest
from pytest_django import Settings

from foldline.jobs import services
from foldline.jobs.models import Event, Job
from foldline.tenants.models import ApiKey, Tenant
from foldline.tenants.services import revoke_key
from foldline.waiting import room, streams
from tests.foldline.waiting.conftest import Callers, Worker
from tests.worker_process import wait_until


@pytest.fixture
def job(door: Callers) -> UUID:
    return door.new_job()


def test_a_stream_tells_each_state_progress_and_place_and_ends_with_the_job(
    door: Callers, job: UUID, worker: Worker
) -> None:
    stream = door.watch(job)
    stream.until("position")
    fence = worker.claim()
    stream.until("state", times=2)
    services.progress(fence, fraction=0.5, stage="fold")
    stream.until("progress")
    services.finish(fence, result={})
    stream.until_ended()
    assert stream.states() == ["queued", "running", "succeeded"]
    assert [event.id for event in stream.of("state")] == ["1", "2", "3"]
    assert stream.of("progress")[0].data["fraction"] == 0.5
    assert stream.of("position")[0].data.keys() >= {"position", "start_p50", "finish_p90"}
    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.headers["x-accel-buffering"] == "no"
    assert stream.headers["cache-control"] == "no-store"
    assert stream.text.startswith("retry: ")


def test_of_a_job_that_has_ended_a_stream_tells_all_and_ends(
    door: Callers, job: UUID, worker: Worker
) -> None:
    services.finish(worker.claim(), result={})
    stream = door.watch(job)
    stream.until_ended()
    assert stream.states() == ["queued", "running", "succeeded"]
    assert [event.name for event in stream.events] == ["state"] * 3


def test_a_stream_that_broke_off_goes_on_without_loss_or_doubles(
    door: Callers, job: UUID, worker: Worker
) -> None:
    fence = worker.claim()
    services.progress(fence, fraction=0.5)
    first = door.watch(job)
    first.until("progress")
    last = first.events[-1].id
    assert last.startswith("2-")
    again = door.watch(job, Last_Event_ID=last)
    door.until_waiting(2)
    assert again.events == []
    services.finish(fence, result={})
    again.until_ended()
    first.until_ended()
    assert [(event.id, event.state) for event in again.events] == [("3", "succeeded")]


@pytest.mark.parametrize("after", range(4))
def test_from_any_number_it_goes_on_with_the_next(
    door: Callers, job: UUID, worker: Worker, after: int
) -> None:
    services.finish(worker.claim(), result={})
    stream = door.watch(job, Last_Event_ID=str(after))
    stream.until_ended()
    assert [event.id for event in stream.events] == ["1", "2", "3"][after:]


@pytest.mark.parametrize("wrong", ["x", "-1", "1.5", "1-zz", "9" * 30, "2-0123456", "4", "1,2"])
def test_a_wrong_last_event_id_is_400(door: Callers, job: UUID, wrong: str) -> None:
    asked = door.get(f"/v1/jobs/{job}/events", Last_Event_ID=wrong)
    assert (asked.answer.status_code, asked.body["code"]) == (400, "invalid_request")
    assert "Last-Event-ID" in asked.body["errors"][0]["expected"]


def test_an_empty_last_event_id_is_none(door: Callers, job: UUID, worker: Worker) -> None:
    services.finish(worker.claim(), result={})
    stream = door.watch(job, Last_Event_ID="")
    stream.until_ended()
    assert len(stream.events) == 3


def test_whatever_is_accepted_gets_events(door: Callers, job: UUID, worker: Worker) -> None:
    services.finish(worker.claim(), result={})
    assert door.watch(job, Accept="application/json").headers["content-type"].startswith("text/eve")


def test_a_cancel_is_told_when_it_is_asked_and_when_it_is_done(
    door: Callers, job: UUID, worker: Worker, tenant: Tenant
) -> None:
    fence = worker.claim()
    stream = door.watch(job)
    services.cancel(tenant_id=tenant.id, job_id=job)
    stream.until("state", times=3)
    assert stream.of("state")[-1].data["cancelling"] is True
    services.stopped(fence)
    stream.until_ended()
    assert stream.states() == ["queued", "running", "running", "cancelled"]


def test_what_admins_do_is_not_told(door: Callers, job: UUID, tenant: Tenant) -> None:
    services.cancel(tenant_id=tenant.id, job_id=job)
    ended = Event.objects.get(job=job, kind="cancelled")
    Event.objects.create(
        job_id=job, sequence=9, kind="redriven", data={"by": "mallory"}, at=ended.at
    )
    stream = door.watch(job)
    stream.until_ended()
    assert "mallory" not in stream.text
    assert stream.states() == ["queued", "cancelled"]


@pytest.mark.usefixtures("only_news")
def test_a_follower_is_told_the_progress_of_its_run(
    door: Callers, job: UUID, worker: Worker
) -> None:
    stream = door.watch(door.new_job())
    door.until_hearing()
    fence = worker.claim()
    services.progress(fence, fraction=0.25)
    stream.until("progress")
    services.finish(fence, result={})
    stream.until_ended()
    assert stream.states() == ["queued", "succeeded"]


def test_where_it_stands_is_told_again_when_that_is_elsewhere(
    door: Callers, job: UUID, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "POSITIONS_S", 0.05)
    place, looks = 7, 0

    def at(_job: Job, *, now: object) -> object:
        nonlocal looks
        from foldline.forecasts.prospects import Prospect

        looks += 1
        return Prospect(position=place)

    monkeypatch.setattr("foldline.notify.stream.prospect_of", at)

    def look_again() -> None:
        wanted = looks + 3
        wait_until(lambda: looks >= wanted)

    stream = door.watch(job)
    stream.until("position")
    look_again()
    place = 6
    stream.until("position", times=2)
    look_again()
    services.cancel(tenant_id=tenant.id, job_id=job)
    stream.until_ended()
    assert [event.data["position"] for event in stream.of("position")] == [7, 6]
    assert {event.id for event in stream.of("position")} == {""}


def test_a_comment_keeps_a_quiet_stream_alive(
    door: Callers, job: UUID, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert streams.KEEP_ALIVE_S == 15
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.05)
    stream = door.watch(job)
    wait_until(lambda: stream.text.count("\n:\n\n") >= 3)
    services.cancel(tenant_id=tenant.id, job_id=job)
    stream.until_ended()


def test_a_key_that_is_revoked_ends_the_stream_with_the_problem(
    door: Callers, job: UUID, tenant: Tenant
) -> None:
    stream = door.watch(job)
    revoke_key(ApiKey.objects.get(tenant=tenant))
    stream.until_ended()
    (error,) = stream.of("error")
    assert (error.data["code"], error.data["status"]) == ("key_refused", 401)


def test_a_job_that_is_deleted_ends_the_stream_with_the_problem(door: Callers, job: UUID) -> None:
    stream = door.watch(job)
    Job.objects.filter(id=job).delete()
    stream.until_ended()
    assert stream.of("error")[0].data["code"] == "job_not_found"


def test_a_reader_that_leaves_is_forgotten_at_once(door: Callers, job: UUID) -> None:
    with door.connection(f"/v1/jobs/{job}/events") as leaving:
        door.until_waiting(1)
        assert leaving.recv(100)
    door.until_forgotten()


def test_a_reader_that_does_not_read_is_told_the_latest_and_at_last_given_up(
    door: Callers, job: UUID, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "WRITE_S", 0.5)
    fence = worker.claim()
    with door.connection(f"/v1/jobs/{job}/events"):
        door.until_waiting(1)
        steps = count(1)

        def given_up() -> bool:
            for step in islice(steps, 50):
                services.progress(fence, fraction=1 - 1 / step, message="x" * 20_000)
            return not door.room.waits

        wait_until(given_up)


def test_a_stream_counts_as_one_poll(
    door: Callers, job: UUID, tenant: Tenant, worker: Worker, limit: Callable[..., None]
) -> None:
    limit(polls_per_minute=1)
    stream = door.watch(job)
    services.finish(worker.claim(), result={})
    stream.until_ended()
    assert stream.states()[-1] == "succeeded"
    assert door.watch(job).status == 429


def test_a_tenant_may_not_open_any_number(door: Callers, job: UUID, settings: Settings) -> None:
    settings.MOST_WAITS_OF_TENANT = 1
    with door.connection(f"/v1/jobs/{job}/events"):
        door.until_waiting(1)
        refused = door.get(f"/v1/jobs/{job}/events")
        assert (refused.answer.status_code, refused.body["code"]) == (429, "too_many_waits")
