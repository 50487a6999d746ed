"""Problems, failed jobs and models name what else could serve a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from foldline.api.answers import Job as JobAnswer
from foldline.api.answers import Model as ModelAnswer
from foldline.api.answers import Problem
from foldline.catalog.alternatives import shelf_kept
from foldline.catalog.models import Revision
from foldline.catalog.services import retire
from foldline.clock import database_now
from foldline.errors import CATALOGUE, job_error
from foldline.forecasts.reading import forecasts_kept
from foldline.forecasts.walker import Walker
from foldline.jobs import pauses
from foldline.jobs.breaker import Breaker, Cause, written
from foldline.jobs.models import Job, QueueState
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quotas import quotas_kept

pytestmark = pytest.mark.django_db
Submit = Callable[..., Any]  # the test client's answer
MakeLive = Callable[..., Revision]
FAMILY = {"entry": "plugin:Plugin", "version": "1", "licence": "MIT", "family": "folding"}
SHORT = {"type": "object", "properties": {"sequence": {"maxLength": 3}}}


@pytest.fixture
def fold(live_revision: MakeLive) -> Revision:
    """A model with three relatives: `near_by`, `short` (three letters at most) and `idle`, which
    is paused."""
    live_revision(name="near_by", manifest=FAMILY)
    live_revision(name="short", manifest=FAMILY, input_schema=SHORT)
    idle = live_revision(name="idle", manifest=FAMILY)
    pauses.pause(idle.model_id, reason="maintenance")
    return live_revision(name="fold", manifest=FAMILY)


def named(body: dict[str, Any]) -> list[str]:
    return [other["model"] for other in body.get("alternatives", [])]


def told(answer: Any) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    Problem.model_validate(body)
    return body


@pytest.mark.parametrize("address", ["jobs", "estimate"])
def test_a_retired_model_names_those_that_take_the_very_inputs(
    submit: Submit, api: Client, fold: Revision, address: str
) -> None:
    retire(fold)

    def sent(sequence: str) -> dict[str, Any]:
        body = {"inputs": {"sequence": sequence}}
        return told(api.post(f"/v1/models/fold/{address}", body, content_type="application/json"))

    assert sent("EVQL")["code"] == "model_retired"
    assert named(sent("EVQL")) == ["near_by"]
    assert named(sent("EVQ")) == ["near_by", "short"]


def test_a_retired_model_names_them_without_inputs_too(api: Client, fold: Revision) -> None:
    retire(fold)
    assert named(told(api.get("/v1/models/fold"))) == ["near_by", "short"]


def test_a_name_that_is_nearly_right_is_met_with_the_right_one(
    submit: Submit, api: Client, fold: Revision
) -> None:
    for answer in (submit(model="foldd"), api.get("/v1/models/foldd")):
        body = told(answer)
        assert (body["code"], named(body)) == ("model_not_found", ["fold"])
    assert "alternatives" not in told(submit(model="something_else"))


def test_a_limit_of_one_model_names_others_and_a_limit_of_all_does_not(
    submit: Submit, fold: Revision, tenant: Tenant
) -> None:
    Quota.objects.create(tenant=tenant, model=fold.model, allowed=False)
    body = told(submit(model="fold"))
    assert (body["code"], named(body)) == ("quota_forbids", ["near_by", "short"])
    Quota.objects.update(model=None)
    quotas_kept.clear()
    Quota.objects.update(allowed=True, waiting=0)
    body = told(submit(model="fold"))
    assert (body["code"], named(body)) == ("quota_exceeded", [])


def test_a_model_that_the_tenant_may_not_use_is_not_named(
    submit: Submit, fold: Revision, tenant: Tenant
) -> None:
    for name in ("fold", "near_by"):
        model = Revision.objects.get(model__name=name).model
        Quota.objects.create(tenant=tenant, model=model, allowed=False)
    assert named(told(submit(model="fold"))) == ["short"]


def test_an_estimate_tells_in_its_refusal_too(api: Client, fold: Revision, tenant: Tenant) -> None:
    Quota.objects.create(tenant=tenant, model=fold.model, allowed=False)
    answer = api.post(
        "/v1/models/fold/estimate",
        {"inputs": {"sequence": "EVQ"}},
        content_type="application/json",
    )
    assert named(answer.json()["refusal"]) == ["near_by", "short"]


@pytest.mark.parametrize("code", [code for code, kind in CATALOGUE.items() if kind.elsewhere])
def test_a_failed_job_names_them_when_it_is_shown_and_keeps_none(
    submit: Submit, api: Client, fold: Revision, code: str
) -> None:
    job = submit({"inputs": {"sequence": "EVQL"}}, model="fold").json()["id"]
    Job.objects.update(state="failed", error=job_error(code))
    body = api.get(f"/v1/jobs/{job}").json()
    JobAnswer.model_validate(body)
    assert named(body["error"]) == ["near_by"]
    assert named(api.get(f"/v1/jobs/{job}/result").json()) == ["near_by"]
    assert "alternatives" not in (Job.objects.get().error or {})
    retire(Revision.objects.get(model__name="near_by"))
    shelf_kept.clear()
    assert named(api.get(f"/v1/jobs/{job}").json()["error"]) == []


@pytest.mark.parametrize("code", ["cancelled", "invalid_input", "deadline_exceeded"])
def test_a_failure_that_another_model_cannot_mend_names_none(
    submit: Submit, api: Client, fold: Revision, code: str
) -> None:
    job = submit({"inputs": {"sequence": "EVQL"}}, model="fold").json()["id"]
    Job.objects.update(state="failed", error=job_error(code))
    assert "alternatives" not in api.get(f"/v1/jobs/{job}").json()["error"]


def test_a_failed_job_names_none_that_the_tenant_may_not_use(
    submit: Submit, api: Client, fold: Revision, tenant: Tenant
) -> None:
    job = submit(model="fold").json()["id"]
    Job.objects.update(state="failed", error=job_error("model_error"))
    near_by = Revision.objects.get(model__name="near_by").model
    Quota.objects.create(tenant=tenant, model=near_by, allowed=False)
    quotas_kept.clear()
    assert named(api.get(f"/v1/jobs/{job}").json()["error"]) == ["short"]


class TestWaiting:
    """A job that waits for a model that is away."""

    def test_it_names_those_that_take_the_very_inputs(
        self, submit: Submit, api: Client, fold: Revision
    ) -> None:
        jobs = {
            each: submit({"inputs": {"sequence": each}}, model="fold").json()["id"]
            for each in ("EVQ", "EVQL")
        }
        assert named(shown(api, jobs["EVQ"])) == []
        pauses.pause(fold.model_id, reason="maintenance")
        queue = shown(api, jobs["EVQ"])
        assert (queue["blocked_reason"], named(queue)) == ("paused", ["near_by", "short"])
        assert named(shown(api, jobs["EVQL"])) == ["near_by"]
        listed = {job["id"]: named(job["queue"]) for job in api.get("/v1/jobs").json()["jobs"]}
        assert listed == {jobs["EVQ"]: ["near_by", "short"], jobs["EVQL"]: ["near_by"]}
        pauses.resume(fold.model_id)
        assert named(shown(api, jobs["EVQ"])) == []

    def test_so_does_one_whose_model_keeps_crashing(
        self, submit: Submit, api: Client, fold: Revision
    ) -> None:
        job = submit({"inputs": {"sequence": "EVQL"}}, model="fold").json()["id"]
        breaker = Breaker(
            revision=str(fold.id), cause=Cause.CRASHES, reason="x", trial_at=database_now()
        )
        QueueState.objects.update_or_create(
            model_id=fold.model_id, defaults={"breaker": written(breaker)}
        )
        queue = shown(api, job)
        assert (queue["blocked_reason"], named(queue)) == ("crash_looping", ["near_by"])

    def test_a_model_that_the_tenant_may_not_use_is_not_named(
        self, submit: Submit, api: Client, fold: Revision, tenant: Tenant
    ) -> None:
        job = submit(model="fold").json()["id"]
        pauses.pause(fold.model_id, reason="maintenance")
        short = Revision.objects.get(model__name="short").model
        Quota.objects.create(tenant=tenant, model=short, allowed=False)
        quotas_kept.clear()
        assert named(shown(api, job)) == ["near_by"]

    def test_a_submit_and_an_estimate_name_them_as_soon_as_a_forecast_says_so(
        self, submit: Submit, api: Client, fold: Revision
    ) -> None:
        pauses.pause(fold.model_id, reason="maintenance")
        submit({"inputs": {"sequence": "E"}}, model="fold")
        walker = Walker()
        walker.begin()
        walker.walk()
        forecasts_kept.clear()
        body = {"inputs": {"sequence": "EVQL"}}
        answer = api.post("/v1/models/fold/estimate", body, content_type="application/json")
        for told in (answer.json(), submit(body, model="fold").json()):
            assert (told["queue"]["blocked_reason"], named(told["queue"])) == (
                "paused",
                ["near_by"],
            )

    def test_once_it_has_ended_it_names_none(
        self, submit: Submit, api: Client, fold: Revision
    ) -> None:
        job = submit(model="fold").json()["id"]
        pauses.pause(fold.model_id, reason="maintenance")
        cancelled = api.post(f"/v1/jobs/{job}/cancel").json()
        assert (cancelled["state"], named(cancelled["queue"])) == ("cancelled", [])


def shown(api: Client, job: str) -> dict[str, Any]:
    body = api.get(f"/v1/jobs/{job}").json()
    JobAnswer.model_validate(body)
    queue: dict[str, Any] = body["queue"]
    return queue


def test_a_model_shows_its_alternatives(api: Client, fold: Revision) -> None:
    shown = ModelAnswer.model_validate_json(api.get("/v1/models/fold").content)
    assert [other.model for other in shown.alternatives] == ["idle", "near_by", "short"]
    listed = {each["name"]: each for each in api.get("/v1/models").json()["models"]}
    assert named(listed["fold"]) == ["idle", "near_by", "short"]
    assert "fold" in named(listed["idle"])
