"""`on_unavailable`: a caller that would not wait for a model that is away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from foldline.api.answers import Job as JobAnswer
from foldline.api.answers import Problem
from foldline.api.elsewhere import is_allowed
from foldline.catalog.alternatives import shelf_kept
from foldline.catalog.models import Alternative, Model, Revision
from foldline.catalog.services import retire
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.fleet.policies import pin, wish
from foldline.fleet.services import register
from foldline.jobs import pauses
from foldline.jobs.absence import absences_kept
from foldline.jobs.breaker import Breaker, Cause, written
from foldline.jobs.models import Job, QueueState
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quotas import quotas_kept

pytestmark = pytest.mark.django_db
Submit = Callable[..., Any]  # the test client's answer
MakeLive = Callable[..., Revision]
SHORT = {"type": "object", "properties": {"sequence": {"maxLength": 3}}}


@pytest.fixture
def three(live_revision: MakeLive) -> dict[str, Revision]:
    """The models `a`, `b` and `c`: b is the alternative to a, c to b."""
    found = {name: live_revision(name=name) for name in "abc"}
    offer("a", "b")
    offer("b", "c")
    return found


def offer(model: str, instead: str, **changes: Any) -> None:
    models = {each.name: each for each in Model.objects.all()}
    Alternative.objects.create(model=models[model], instead=models[instead], **changes)
    look_again()


def look_again() -> None:
    """Two seconds pass."""
    shelf_kept.clear()
    absences_kept.clear()


def pause(revision: Revision) -> None:
    pauses.pause(revision.model_id, reason="maintenance until noon")


def loop(revision: Revision, *, cause: Cause = Cause.CRASHES) -> None:
    trial_at = database_now() + timedelta(seconds=90)
    breaker = Breaker(
        revision=str(revision.id), cause=cause, reason="secret traceback", trial_at=trial_at
    )
    QueueState.objects.create(model_id=revision.model_id, breaker=written(breaker))


def starts_fail(revision: Revision) -> None:
    loop(revision, cause=Cause.STARTS)


def hold_at_zero(revision: Revision) -> None:
    wish(revision.model_id, max_workers=0)


def pin_at_zero(revision: Revision) -> None:
    pin(revision.model_id, workers=0)


WAYS_TO_BE_AWAY = {
    "paused": pause,
    "crash_looping": loop,
    "starts": starts_fail,
    "no_workers": hold_at_zero,
    "pinned": pin_at_zero,
}
REASONS = {"starts": "crash_looping", "pinned": "no_workers"}


def sent(submit: Submit, wish: str | None, *, model: str = "a", **headers: str) -> Any:
    body: dict[str, Any] = {"inputs": {"sequence": "EVQL"}}
    return submit({**body, "on_unavailable": wish} if wish else body, model=model, **headers)


def problem(answer: Any) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    Problem.model_validate(body)
    assert "secret" not in answer.content.decode()
    return body


@pytest.mark.parametrize("way", WAYS_TO_BE_AWAY)
class TestAway:
    """Whatever a model is away for."""

    @pytest.fixture(autouse=True)
    def away(self, three: dict[str, Revision], way: str) -> None:
        WAYS_TO_BE_AWAY[way](three["a"])

    def test_without_the_member_the_call_waits(self, submit: Submit, way: str) -> None:
        assert sent(submit, None).status_code == 202
        assert Job.objects.get().model.name == "a"

    def test_fail_refuses_at_once_and_says_until_when(self, submit: Submit, way: str) -> None:
        answer = sent(submit, "fail")
        body = problem(answer)
        assert (answer.status_code, body["code"]) == (503, "model_unavailable")
        away = body["unavailable"]
        assert (away["model"], away["reason"]) == ("a", REASONS.get(way, way))
        assert int(answer.headers["Retry-After"]) == body["retry_after_s"]
        if away["reason"] == "crash_looping":
            assert away["until"]
            assert 80 <= body["retry_after_s"] <= 90
        if way == "paused":
            assert "maintenance until noon" in body["detail"]
        assert body["alternatives"] == []
        assert not Job.objects.exists()

    def test_suggest_names_alternatives_as_well(self, submit: Submit, way: str) -> None:
        body = problem(sent(submit, "suggest"))
        assert body["code"] == "model_unavailable"
        assert [other["model"] for other in body["alternatives"]] == ["b"]
        assert not Job.objects.exists()

    def test_switch_gives_the_call_to_the_first_that_takes_it(
        self, submit: Submit, three: dict[str, Revision], way: str
    ) -> None:
        answer = sent(submit, "switch")
        assert answer.status_code == 202
        shown = JobAnswer.model_validate_json(answer.content)
        job = Job.objects.get()
        assert shown.model == job.model.name == "b"
        assert job.revision == three["b"]
        (warned,) = answer.json()["warnings"]
        assert (warned["code"], warned["from"], warned["to"]) == ("switched", "a", "b")
        assert warned["why"]
        direct = sent(submit, None, model="b").json()
        assert direct["fingerprint"] == shown.fingerprint  # as if it had been called itself


@pytest.mark.parametrize("wish", ["fail", "suggest", "switch"])
def test_a_model_that_takes_work_is_called_whatever_is_wished(
    submit: Submit, three: dict[str, Revision], wish: str
) -> None:
    shown = sent(submit, wish).json()
    assert (shown["model"], shown["warnings"]) == ("a", [])


@pytest.mark.parametrize("way", [hold_at_zero, starts_fail])
def test_a_worker_that_is_loaded_serves_all_the_same(
    submit: Submit, three: dict[str, Revision], way: Callable[[Revision], None]
) -> None:
    way(three["a"])
    worker = register(name="w1", revision_id=three["a"].id, node="n", pid=1)
    Worker.objects.filter(pk=worker).update(state=Worker.State.READY)
    assert sent(submit, "fail").json()["model"] == "a"


def test_a_breaker_of_an_older_revision_says_nothing_of_this_one(
    submit: Submit, three: dict[str, Revision], live_revision: MakeLive
) -> None:
    loop(three["a"])
    live_revision(name="a")
    look_again()
    assert sent(submit, "fail").status_code == 202


def test_an_item_of_a_batch_whose_model_keeps_crashing_is_refused_alone(
    api: Client, submit: Submit, three: dict[str, Revision]
) -> None:
    loop(three["a"])
    look_again()
    items = [
        {"model": model, "inputs": {"sequence": "EVQL"}, "on_unavailable": "fail"} for model in "ab"
    ]
    answer = api.post("/v1/batches", {"jobs": items}, content_type="application/json")
    assert answer.status_code == 202
    for body in (answer.json(), api.get(answer.json()["urls"]["self"]).json()):
        refused, accepted = body["jobs"]
        Problem.model_validate(refused["error"])
        assert refused["error"]["unavailable"]["until"].endswith("Z")
        assert accepted["job"]["model"] == "b"


def test_a_model_that_was_retired_a_moment_ago_is_allowed_to_nobody(
    three: dict[str, Revision], tenant: Tenant
) -> None:
    assert is_allowed("a", tenant_id=tenant.id)
    retire(three["a"])
    look_again()
    assert not is_allowed("a", tenant_id=tenant.id)


def test_a_retired_model_is_switched_from_too(submit: Submit, three: dict[str, Revision]) -> None:
    retire(three["a"])
    look_again()
    assert [sent(submit, wish).status_code for wish in ("fail", "suggest")] == [410, 410]
    shown = sent(submit, "switch").json()
    assert shown["model"] == "b"
    assert "retired" in shown["warnings"][0]["message"]


def test_an_unknown_model_is_unknown_whatever_is_wished(submit: Submit) -> None:
    assert sent(submit, "switch", model="nothing").json()["code"] == "model_not_found"


def test_alternatives_of_alternatives_are_asked_near_ones_first(
    submit: Submit, three: dict[str, Revision], live_revision: MakeLive
) -> None:
    live_revision(name="d")
    offer("a", "d", place=2)
    for name in ("a", "b"):
        pause(three[name])
    assert sent(submit, "switch").json()["model"] == "d"
    retire(Revision.objects.get(model__name="d"))
    look_again()
    assert sent(submit, "switch").json()["model"] == "c"


def test_the_schema_of_an_alternative_must_take_the_inputs(
    submit: Submit, three: dict[str, Revision], live_revision: MakeLive
) -> None:
    live_revision(name="b", input_schema=SHORT)
    look_again()
    pause(three["a"])
    assert sent(submit, "switch").json()["model"] == "c"


def test_a_model_the_quota_forbids_is_passed_over(
    submit: Submit, three: dict[str, Revision], tenant: Tenant
) -> None:
    Quota.objects.create(tenant=tenant, model=three["b"].model, allowed=False)
    pause(three["a"])
    assert sent(submit, "switch").json()["model"] == "c"


def test_a_loop_of_alternatives_ends_in_a_failure_that_names_each_once(
    submit: Submit, three: dict[str, Revision], live_revision: MakeLive, tenant: Tenant
) -> None:
    live_revision(name="d", input_schema=SHORT)
    offer("c", "a")
    offer("c", "d", place=2)
    offer("d", "b")
    pause(three["a"])
    loop(three["b"])
    Quota.objects.create(tenant=tenant, model=three["c"].model, allowed=False)
    look_again()
    answer = sent(submit, "switch")
    body = problem(answer)
    assert (answer.status_code, body["code"]) == (503, "model_unavailable")
    tried = [(each["model"], each["reason"]) for each in body["tried"]]
    assert tried == [("b", "crash_looping"), ("c", "quota"), ("d", "inputs")]
    for each in body["tried"]:
        assert each["message"] in body["detail"]
    assert not Job.objects.exists()


def test_an_alternative_that_is_retired_while_the_call_is_on_its_way_makes_no_fault(
    submit: Submit, three: dict[str, Revision], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was found live and able, and before the call goes there."""
    for kept in (shelf_kept, quotas_kept):
        monkeypatch.setattr(kept, "_keep_s", 0)  # each look is a new one
    pause(three["a"])
    asked: list[str] = []

    def retire_b_when_its_quota_is_read(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        asked.append(sql)
        if "tenants_quota" in sql and any("jobs_queuestate" in each for each in asked):
            asked.clear()
            retire(three["b"])
        return execute(sql, *rest)

    with connection.execute_wrapper(retire_b_when_its_quota_is_read):
        answer = sent(submit, "switch")
    assert Revision.objects.get(model__name="b").state == "retired"
    assert (answer.status_code, answer.json()["model"]) == (202, "b")


def test_a_model_without_alternatives_says_so(submit: Submit, three: dict[str, Revision]) -> None:
    pause(three["c"])
    body = problem(sent(submit, "switch", model="c"))
    assert (body["code"], body["tried"]) == ("model_unavailable", [])


class TestAgain:
    """A repeat with the same key is the same job, wherever the call would go now."""

    def test_after_the_model_has_come_back(
        self, submit: Submit, three: dict[str, Revision]
    ) -> None:
        pause(three["a"])
        first = sent(submit, "switch", Idempotency_Key="k").json()
        pauses.resume(three["a"].model_id)
        look_again()
        again = sent(submit, "switch", Idempotency_Key="k")
        assert again.headers["Idempotency-Replayed"] == "true"
        assert (again.json()["id"], again.json()["model"]) == (first["id"], "b")
        assert again.json()["warnings"] == first["warnings"]

    @pytest.mark.parametrize("wish", ["fail", "suggest", "switch"])
    def test_after_everything_has_gone(
        self, submit: Submit, three: dict[str, Revision], wish: str
    ) -> None:
        first = sent(submit, wish, Idempotency_Key="k").json()
        for each in three.values():
            pause(each)
        look_again()
        again = sent(submit, wish, Idempotency_Key="k")
        assert (again.status_code, again.json()["id"]) == (202, first["id"])
        assert sent(submit, wish, Idempotency_Key="other").status_code == 503
        assert sent(submit, "fail", model="b", Idempotency_Key="k").status_code == 422

    def test_after_the_model_was_retired(self, submit: Submit, three: dict[str, Revision]) -> None:
        first = sent(submit, None, Idempotency_Key="k").json()
        retire(three["a"])
        again = sent(submit, None, Idempotency_Key="k")
        assert (again.status_code, again.json()["id"]) == (202, first["id"])


def test_an_estimate_goes_where_its_submit_would(
    submit: Submit, api: Client, three: dict[str, Revision]
) -> None:
    pause(three["a"])
    body = {"inputs": {"sequence": "EVQL"}, "on_unavailable": "switch"}
    shown = api.post("/v1/models/a/estimate", body, content_type="application/json").json()
    assert (shown["model"], shown["warnings"][0]["code"]) == ("b", "switched")
    body["on_unavailable"] = "fail"
    answer = api.post("/v1/models/a/estimate", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (503, "model_unavailable")


@pytest.mark.parametrize("wish", ["", "wait", 1, True, ["fail"], {"fail": 1}])
def test_another_wish_is_a_400(submit: Submit, three: dict[str, Revision], wish: Any) -> None:
    pause(three["a"])
    answer = submit({"inputs": {"sequence": "EVQ"}, "on_unavailable": wish}, model="a")
    assert answer.status_code == 400
    (found,) = answer.json()["errors"]
    assert (found["pointer"], found["code"]) == ("/on_unavailable", "not_allowed")


@pytest.mark.parametrize("inputs", [None, [], "x", 1])
def test_a_switch_needs_inputs(submit: Submit, three: dict[str, Revision], inputs: Any) -> None:
    pause(three["a"])
    answer = submit({"inputs": inputs, "on_unavailable": "switch"}, model="a")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/inputs"


@pytest.mark.usefixtures("clock_stands_still")
def test_who_is_away_is_read_once_in_two_seconds_and_only_when_asked(
    submit: Submit, three: dict[str, Revision], django_assert_max_num_queries: Callable[..., Any]
) -> None:
    body = {"inputs": {"sequence": "E"}}
    submit(body, model="a")
    with django_assert_max_num_queries(5):
        submit({"inputs": {"sequence": "EV"}}, model="a")
    assert not absences_kept._kept
    submit({"inputs": {"sequence": "EVQ"}, "on_unavailable": "fail"}, model="a")
    with django_assert_max_num_queries(5):
        submit({"inputs": {"sequence": "EVQL"}, "on_unavailable": "fail"}, model="a")


class TestNext:
    def test_the_models_named_next_are_kept_as_a_hint(
        self, submit: Submit, three: dict[str, Revision]
    ) -> None:
        assert (
            submit({"inputs": {"sequence": "E"}, "next": ["b", "c"]}, model="a").status_code == 202
        )
        assert Job.objects.get().next_models == ["b", "c"]

    def test_none_is_none(self, submit: Submit) -> None:
        assert submit({"inputs": {"sequence": "E"}, "next": []}).status_code == 202
        assert Job.objects.get().next_models is None

    def test_a_model_that_is_not_there_is_a_422_that_points_at_it(
        self, submit: Submit, three: dict[str, Revision]
    ) -> None:
        retire(three["c"])
        look_again()
        answer = submit({"inputs": {"sequence": "E"}, "next": ["b", "nothing", "c"]}, model="a")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
        told = [(found["pointer"], found["code"]) for found in answer.json()["errors"]]
        assert told == [("/next/1", "unknown_model"), ("/next/2", "unknown_model")]
        assert not Job.objects.exists()

    @pytest.mark.parametrize(
        ("named", "place", "code"),
        [
            ("b", "/next", "wrong_type"),
            (None, "/next", "wrong_type"),
            ([1], "/next/0", "wrong_type"),
            (["b", None], "/next/1", "wrong_type"),
            (["b"] * 9, "/next", "too_many_items"),
        ],
        ids=str,
    )
    def test_what_is_no_list_of_up_to_eight_names_is_a_400(
        self, submit: Submit, named: Any, place: str, code: str
    ) -> None:
        answer = submit({"inputs": {"sequence": "E"}, "next": named})
        assert answer.status_code == 400
        assert [(f["pointer"], f["code"]) for f in answer.json()["errors"]] == [(place, code)]
