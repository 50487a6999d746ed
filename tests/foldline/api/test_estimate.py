from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from foldline.api.answers import Estimate
from foldline.api.answers import Job as JobAnswer
from foldline.catalog.models import Model, Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.forecasts.reading import forecasts_kept
from foldline.forecasts.walker import Walker
from foldline.jobs import services
from foldline.jobs.models import Event, Job
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quotas import quotas_kept
from tests.at_once import at_once

pytestmark = pytest.mark.django_db
Submit = Callable[..., Any]  # the test client's answer

INPUTS = {"sequence": "EVQ"}


@pytest.fixture(autouse=True)
def _read_anew() -> None:
    forecasts_kept.clear()


@pytest.fixture
def estimate(toy: Revision, api: Client, unsent: None) -> Callable[..., dict[str, Any]]:
    def ask(**body: Any) -> dict[str, Any]:
        sent = {"inputs": INPUTS, **body}
        answer = api.post("/v1/models/toy/estimate", sent, content_type="application/json")
        assert answer.status_code == 200, answer.content
        Estimate.model_validate_json(answer.content)
        told: dict[str, Any] = answer.json()
        return told

    return ask


@pytest.fixture
def loaded(toy: Revision) -> Worker:
    """A worker that has computed a job in 30 seconds and waits for the next."""
    now = database_now()
    return Worker.objects.create(
        name="w1",
        revision=toy,
        state="ready",
        node="here",
        pid=1,
        started_at=now,
        last_seen=now,
        load_seconds={"total": 20.0},
        peak_memory_bytes=2**20,
    )


def compute_one(toy: Revision, *, seconds: float) -> None:
    """Let a waiting job run for so long."""
    (job,) = services.claim(revision_id=toy.id, owner="w1")
    began = database_now() - timedelta(seconds=seconds)
    job_id = job.fence.job_id
    Job.objects.get(id=job_id).attempts.update(started_at=began)
    services.finish(job.fence, result={"x": 1})


def walk() -> None:
    walker = Walker()
    walker.begin()
    walker.walk()
    forecasts_kept.clear()


def test_nothing_is_queued_and_nothing_written(estimate: Callable[..., dict[str, Any]]) -> None:
    told = estimate()
    assert told["normalized_inputs"] == {"sequence": "EVQ", "copies": 1}
    assert (told["refusal"], told["cache"], told["coalesced_with"]) == (None, {"hit": False}, None)
    assert told["usage"] == {"gpu_seconds": None, "cost": None, "currency": "USD"}
    assert told["memory"] is None
    assert not Job.objects.exists()
    assert not Event.objects.exists()


def test_it_costs_what_the_models_jobs_used_times_its_price(
    estimate: Callable[..., dict[str, Any]], submit: Submit, toy: Revision, loaded: Worker
) -> None:
    Model.objects.update(price="0.01")
    submit({"inputs": {"sequence": "AAA"}})
    compute_one(toy, seconds=30)
    walk()
    told = estimate()
    assert told["usage"]["gpu_seconds"] == pytest.approx(30, abs=9)
    assert told["usage"]["cost"].startswith("0.3")
    assert told["memory"] == {"peak_bytes": 2**20, "limit_bytes": 100 * 2**20, "fits": True}
    assert told["eta"]["basis"] == "history"


def test_it_says_where_the_call_would_stand_and_when_it_would_start(
    estimate: Callable[..., dict[str, Any]], submit: Submit, toy: Revision, loaded: Worker
) -> None:
    submit({"inputs": {"sequence": "AAA"}})
    compute_one(toy, seconds=100)
    for letters in ("AC", "AD"):
        submit({"inputs": {"sequence": letters}})
    walk()
    told = estimate()
    assert told["queue"]["position"] == 3
    assert told["queue"]["ahead_gpu_s"] == pytest.approx(200, abs=10)
    assert told["queue"]["message"].startswith("2 ahead, about 3 min")
    begins, ends = (datetime.fromisoformat(told["eta"][n]) for n in ("start_p50", "finish_p50"))
    assert (ends - begins).total_seconds() == pytest.approx(100, abs=10)


def test_a_submit_says_the_same_as_the_estimate_before_it(
    estimate: Callable[..., dict[str, Any]],
    submit: Submit,
    api: Client,
    toy: Revision,
    loaded: Worker,
) -> None:
    submit({"inputs": {"sequence": "AAA"}})
    compute_one(toy, seconds=100)
    submit({"inputs": {"sequence": "AC"}})
    walk()
    before = estimate(deadline_s=50)
    answer = submit({"inputs": INPUTS, "deadline_s": 50})
    told = JobAnswer.model_validate_json(answer.content)
    assert (told.queue.position, before["queue"]["position"]) == (2, 2)
    assert [warning.code for warning in told.warnings] == ["deadline_unlikely"]
    assert [warning["code"] for warning in before["warnings"]] == ["deadline_unlikely"]
    assert told.poll_after_s == int(answer.headers["Retry-After"]) == 60
    walk()
    shown = JobAnswer.model_validate_json(api.get(f"/v1/jobs/{told.id}").content)
    assert (shown.queue.position, shown.queue.reason) == (2, None)
    assert [warning.code for warning in shown.warnings] == ["deadline_unlikely"]
    assert shown.cold_start.expected is False
    result = api.get(f"/v1/jobs/{told.id}/result")
    assert int(result.headers["Retry-After"]) > 1


def test_a_job_carries_what_the_limits_and_the_estimates_go_by(
    submit: Submit, toy: Revision, loaded: Worker, tenant: Tenant
) -> None:
    submit({"inputs": {"sequence": "AAA"}})
    compute_one(toy, seconds=30)
    walk()
    submit()
    job = Job.objects.latest("id")
    assert job.input_size == len(json.dumps(job.normalized_input, separators=(",", ":")))
    assert job.estimate_gpu_s == pytest.approx(30, abs=9)


def test_an_equal_call_that_was_answered_costs_nothing(
    estimate: Callable[..., dict[str, Any]], submit: Submit, toy: Revision, loaded: Worker
) -> None:
    first = json.loads(submit().content)["id"]
    assert estimate()["coalesced_with"] == first
    assert estimate()["queue"]["blocked_reason"] == "attached"
    compute_one(toy, seconds=30)
    told = estimate()
    assert (told["cache"], told["coalesced_with"]) == ({"hit": True}, None)
    assert told["usage"]["gpu_seconds"] == 0
    assert estimate(no_cache=True)["cache"] == {"hit": False}


def test_a_quota_that_would_refuse_is_told_and_refuses_nothing(
    estimate: Callable[..., dict[str, Any]], submit: Submit, tenant: Tenant
) -> None:
    Quota.objects.create(tenant=tenant, waiting=1)
    assert estimate()["refusal"] is None
    submit()
    told = estimate(inputs={"sequence": "OTHER"})
    assert (told["refusal"]["code"], told["refusal"]["limit"]["name"]) == (
        "quota_exceeded",
        "waiting",
    )


@pytest.mark.parametrize(("limits", "code"), [({"gpu_seconds_day": 1}, 202), ({"waiting": 1}, 429)])
def test_a_call_whose_equal_is_under_way_is_refused_only_as_its_submit_would_be(
    estimate: Callable[..., dict[str, Any]],
    submit: Submit,
    tenant: Tenant,
    limits: dict[str, int],
    code: int,
) -> None:
    submit()
    Quota.objects.create(tenant=tenant, **limits)
    quotas_kept.clear()
    told = estimate()
    assert told["coalesced_with"]
    assert (told["refusal"] is None) == (code == 202)
    assert submit().status_code == code


@pytest.mark.django_db(transaction=True)
def test_it_waits_for_nobody_who_holds_the_quota(
    estimate: Callable[..., dict[str, Any]], submit: Submit, tenant: Tenant
) -> None:
    Quota.objects.create(tenant=tenant, waiting=1)
    submit()
    held, asked = threading.Event(), threading.Event()

    def hold() -> bool:
        """As a submit does; on SQLite this is the one writer."""
        with transaction.atomic():
            Quota.objects.select_for_update().get(tenant=tenant)
            held.set()
            return asked.wait(60)

    def ask() -> dict[str, Any]:
        assert held.wait(60)
        told = estimate(inputs={"sequence": "OTHER"})
        asked.set()
        return told

    in_time, told = at_once([hold, ask])
    assert in_time is True
    assert told["refusal"]["limit"] == {
        "name": "waiting", "model": None, "used": 1, "allowed": 1, "until": None,
    }  # fmt: skip


def test_a_model_that_is_not_allowed_is_told_as_such(
    estimate: Callable[..., dict[str, Any]], tenant: Tenant
) -> None:
    Quota.objects.create(tenant=tenant, allowed=False)
    assert estimate()["refusal"]["code"] == "quota_forbids"


@pytest.mark.parametrize(
    ("body", "status"),
    [({"inputs": {}}, 422), ({"inputs": INPUTS, "x": 1}, 400), ([], 400)],
)
def test_what_a_submit_refuses_as_wrong_is_refused_here_alike(
    api: Client, submit: Submit, toy: Revision, body: Any, status: int
) -> None:
    asked = api.post("/v1/models/toy/estimate", body, content_type="application/json")
    sent = submit(body)
    assert asked.status_code == sent.status_code == status
    left, right = asked.json(), sent.json()
    assert {**left, "request_id": ""} == {**right, "request_id": ""}
