from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from foldline.api.answers import Batch as BatchAnswer
from foldline.api.refusals import refusals
from foldline.catalog.models import Revision
from foldline.catalog.selectors import live_models_kept
from foldline.catalog.services import retire
from foldline.errors import Storage, job_error
from foldline.ids import uuid7
from foldline.jobs import pauses, services
from foldline.jobs.models import Batch, Job
from foldline.tenants.models import ApiKey, Quota, Tenant
from foldline.tenants.quotas import quotas_kept

pytestmark = pytest.mark.django_db

Post = Callable[..., Any]  # the test client's answer
MakeLive = Callable[..., Revision]
Item = dict[str, Any]


@pytest.fixture(autouse=True)
def _nothing_was_refused() -> None:
    refusals.clear()


@pytest.fixture
def post(toy: Revision, api: Client, unsent: None) -> Post:
    """POST a batch as `tenant`: a list of items, a whole body, or bytes as they are."""

    def send(body: Any, *, by: Client | None = None, **headers: str) -> Any:
        sent = {"jobs": body} if isinstance(body, list) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (by or api).post("/v1/batches", sent, content_type="application/json", headers=named)

    return send


def item(number: int = 0, **members: Any) -> Item:
    """A call of `toy` that is equal to no other number's."""
    return {"model": "toy", "inputs": {"sequence": "EVQ" + "A" * number}, **members}


def errors(answer: Any) -> list[tuple[str, str] | None]:
    """Pointer and code of each item's first finding; None where there is a job."""
    assert answer.status_code == 202, answer.content
    found = []
    for each in answer.json()["jobs"]:
        assert (each["job"] is None) != (each["error"] is None)
        first = each["error"] and (each["error"].get("errors") or [{"pointer": "", "code": ""}])[0]
        found.append(first and (first["pointer"], first["code"]))
    return found


def codes(answer: Any) -> list[str]:
    return [each["error"]["code"] if each["error"] else "" for each in answer.json()["jobs"]]


def pointers(answer: Any) -> list[tuple[str, str]]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    return [(found["pointer"], found["code"]) for found in answer.json()["errors"]]


def test_a_batch_is_accepted(post: Post, tenant: Tenant) -> None:
    answer = post({"session": "s1", "jobs": [item(0), item(1, session="s2"), item(2)]})
    assert answer.status_code == 202
    told = BatchAnswer.model_validate_json(answer.content)
    assert (told.state, told.session, told.poll_after_s) == ("open", "s1", 1)
    assert (told.counts.queued, told.counts.refused) == (3, 0)
    assert [each.index for each in told.jobs] == [0, 1, 2]
    assert [each.job.session for each in told.jobs if each.job] == ["s1", "s2", "s1"]
    assert answer.headers["Location"] == told.urls.self == f"/v1/batches/{told.id}"
    assert answer.headers["Retry-After"] == "1"
    assert Batch.objects.get().tenant == tenant
    assert set(Job.objects.values_list("tenant", flat=True)) == {tenant.id}


def test_the_answer_is_what_the_batch_shows_later(post: Post, api: Client) -> None:
    answer = post([item(n) for n in range(3)] + [item(0), {"model": "none", "inputs": {}}]).json()
    later = api.get(answer["urls"]["self"]).json()
    for each in (answer, later):
        for job in each["jobs"]:
            # Without a forecast a submit does not ask why a job waits.
            job["job"] and job["job"].pop("queue")
    assert later == answer


def test_an_item_becomes_the_job_that_a_single_submit_makes(
    post: Post, submit: Post, api: Client
) -> None:
    envelope: dict[str, Any] = {"seed": 5, "priority": "batch", "session": "s", "deadline_s": 60}
    envelope |= {"start_within_s": 6, "no_cache": True}
    (together,) = post([item(**envelope)]).json()["jobs"]
    alone = submit({"inputs": item()["inputs"], **envelope}).json()
    differ = {"id", "created_at", "start_by", "deadline", "urls"}
    assert together["job"].keys() == alone.keys()
    for name in alone.keys() - differ:
        assert together["job"][name] == alone[name], name


class TestDefaults:
    def test_members_of_the_batch_hold_for_items_that_do_not_say_them(self, post: Post) -> None:
        whole = {"priority": "batch", "deadline_s": 60, "start_within_s": 30, "no_cache": True}
        own = {"priority": "interactive", "deadline_s": 9, "start_within_s": 3, "no_cache": False}
        post({**whole, "session": "s", "jobs": [item(1), item(2, **own)]})
        plain, special = Job.objects.order_by("id")
        assert (plain.priority, plain.session, plain.shared) == ("batch", "s", False)
        assert (special.priority, special.session, special.shared) == ("interactive", "s", True)
        spans = [
            [(time - job.created_at).total_seconds() for time in (job.start_by, job.deadline)]  # type: ignore[operator]  # both are set
            for job in (plain, special)
        ]
        assert spans == [pytest.approx([30, 60]), pytest.approx([3, 9])]

    def test_they_are_part_of_what_an_items_key_names(self, post: Post, submit: Post) -> None:
        submit({"inputs": item()["inputs"], "session": "s"}, Idempotency_Key="k")
        keyed = item(idempotency_key="k")
        assert codes(post({"session": "s", "jobs": [keyed]})) == [""]
        assert codes(post({"session": "t", "jobs": [keyed]})) == ["idempotency_key_reused"]
        assert Job.objects.count() == 1


BROKEN_ITEMS: list[tuple[Any, str, str]] = [
    (5, "", "wrong_type"),
    (None, "", "wrong_type"),
    ("toy", "", "wrong_type"),
    ([], "", "wrong_type"),
    ([[[[{}]]]], "", "wrong_type"),
    ({}, "/model", "missing_field"),
    ({"inputs": {}}, "/model", "missing_field"),
    (item(model=None), "/model", "wrong_type"),
    (item(model=["toy"]), "/model", "wrong_type"),
    (item(model={"name": "toy"}), "/model", "wrong_type"),
    (item(model="nope"), "/model", "unknown_model"),
    (item(model="../toy"), "/model", "unknown_model"),
    (item(model="x" * 10_000), "/model", "unknown_model"),
    ({"model": "toy"}, "/inputs", "missing_field"),
    (item(inputs=[]), "/inputs", "wrong_type"),
    (item(inputs={}), "/inputs/sequence", "missing_field"),
    (item(inputs={"sequence": "A", "x": 1}), "/inputs/x", "unknown_field"),
    (item(inputs={"sequence": "A", "copies": [[1]]}), "/inputs/copies", "wrong_type"),
    (item(inputs={"sequence": "A", "template": "x"}), "/inputs/template", "artifact_not_found"),
    (item(tenant="x"), "/tenant", "unknown_field"),
    (item(jobs=[]), "/jobs", "unknown_field"),
    (item(seed=True), "/seed", "wrong_type"),
    (item(seed=-1), "/seed", "too_small"),
    (item(priority="urgent"), "/priority", "not_allowed"),
    (item(session="a\nb"), "/session", "pattern_mismatch"),
    (item(deadline_s=0), "/deadline_s", "too_small"),
    (item(deadline_s=5, start_within_s=6), "/start_within_s", "too_large"),
    (item(idempotency_key=""), "/idempotency_key", "invalid"),
    (item(idempotency_key=" "), "/idempotency_key", "invalid"),
    (item(idempotency_key="é"), "/idempotency_key", "invalid"),
    (item(idempotency_key="x" * 256), "/idempotency_key", "invalid"),
    (item(idempotency_key=7), "/idempotency_key", "invalid"),
    (item(idempotency_key=["k"]), "/idempotency_key", "invalid"),
]


class TestBrokenItems:
    def test_forty_of_a_hundred_do_not_sink_the_rest(self, post: Post) -> None:
        broken = {"model": "toy", "inputs": {"sequence": "evq"}}
        answer = post([broken if n % 5 < 2 else item(n) for n in range(100)])
        expected = [
            (f"/jobs/{n}/inputs/sequence", "pattern_mismatch") if n % 5 < 2 else None
            for n in range(100)
        ]
        assert errors(answer) == expected
        assert answer.json()["counts"]["refused"] == 40
        assert Job.objects.count() == 60

    @pytest.mark.parametrize(
        ("broken", "pointer", "code"),
        BROKEN_ITEMS,
        ids=[f"{number}{pointer}" for number, (_, pointer, _) in enumerate(BROKEN_ITEMS)],
    )
    def test_an_item_of_the_wrong_kind_has_its_problem_with_a_pointer_into_the_body(
        self, post: Post, broken: Any, pointer: str, code: str
    ) -> None:
        assert errors(post([item(1), broken])) == [None, (f"/jobs/1{pointer}", code)]
        assert Job.objects.count() == 1

    def test_a_problem_has_the_shape_of_a_refused_submit(self, post: Post, submit: Post) -> None:
        wrong = {"sequence": "evq", "copies": 9}
        together = post([item(inputs=wrong)], X_Request_ID="r").json()["jobs"][0]["error"]
        alone = submit({"inputs": wrong}, X_Request_ID="r").json()
        for found in alone["errors"]:
            found["pointer"] = f"/jobs/0{found['pointer']}"
        assert together == alone

    def test_models_that_take_nothing_refuse_their_items_only(
        self, post: Post, live_revision: MakeLive
    ) -> None:
        retire(live_revision(name="old"))
        answer = post([item(model="old"), item()])
        assert codes(answer) == ["model_retired", ""]

    def test_what_is_called_otherwise_while_a_model_is_away_is_said_by_the_item(
        self, post: Post, live_revision: MakeLive
    ) -> None:
        retire(live_revision(name="old"))
        answer = post([item(model="old", on_unavailable="fail"), item(next=["toy"])])
        assert codes(answer) == ["model_retired", ""]
        assert errors(post([item(next=["none"])])) == [("/jobs/0/next/0", "unknown_model")]

    def test_an_items_key_is_known_when_its_model_is_retired(
        self, post: Post, submit: Post, toy: Revision
    ) -> None:
        submit({"inputs": item()["inputs"]}, Idempotency_Key="k")
        retire(toy)
        live_models_kept.clear()
        answer = post([item(idempotency_key="k"), item(1)])
        assert codes(answer) == ["", "model_retired"]

    def test_a_paused_model_takes_jobs_which_wait(
        self, post: Post, api: Client, toy: Revision
    ) -> None:
        pauses.pause(toy.model_id, reason="maintenance")
        url = post([item()]).json()["urls"]["self"]
        (job,) = api.get(url).json()["jobs"]
        assert job["job"]["queue"]["blocked_reason"] == "paused"

    def test_items_of_several_models_are_taken_together(
        self, post: Post, live_revision: MakeLive
    ) -> None:
        live_revision(name="other")
        answer = post([item(n, model=["toy", "other"][n % 2]) for n in range(6)])
        assert [each["job"]["model"] for each in answer.json()["jobs"]] == ["toy", "other"] * 3

    def test_a_batch_of_broken_items_only_is_done(self, post: Post, api: Client) -> None:
        answer = post([1, 2])
        assert (answer.status_code, answer.json()["state"]) == (202, "done")
        assert answer.json()["poll_after_s"] is None
        assert "Retry-After" not in answer.headers
        assert api.get(answer.headers["Location"]).json() == answer.json()


def test_a_store_that_is_away_refuses_the_whole_for_now_and_keeps_nothing(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise Storage

    with monkeypatch.context() as patched:
        patched.setattr("foldline.api.submit.preflighted", away)
        answer = post([item()], Idempotency_Key="k")
    assert (answer.status_code, answer.json()["code"]) == (503, "storage")
    assert not Batch.objects.exists()
    assert codes(post([item()], Idempotency_Key="k")) == [""]


class TestBrokenBodies:
    @pytest.mark.parametrize(
        ("body", "pointer", "code"),
        [
            (b"{}", "/jobs", "missing_field"),
            (b"[]", "", "not_an_object"),
            (b'{"jobs": {}}', "/jobs", "wrong_type"),
            (b'{"jobs": null}', "/jobs", "wrong_type"),
            (b'{"jobs": "toy"}', "/jobs", "wrong_type"),
            (b'{"jobs": []}', "/jobs", "too_few_items"),
            (json.dumps({"jobs": [item()] * 101}).encode(), "/jobs", "too_many_items"),
            (b'{"jobs": [1], "model": "toy"}', "/model", "unknown_field"),
            (b'{"jobs": [1], "seed": 1}', "/seed", "unknown_field"),
            (b'{"jobs": [1], "idempotency_key": "k"}', "/idempotency_key", "unknown_field"),
            (b'{"jobs": [1], "priority": 1}', "/priority", "not_allowed"),
            (b'{"jobs": [1], "session": null}', "/session", "wrong_type"),
            (b'{"jobs": [1], "deadline_s": "60"}', "/deadline_s", "wrong_type"),
            (b'{"jobs": [1], "no_cache": 1}', "/no_cache", "wrong_type"),
            (b'{"jobs": [1], "jobs": [2]}', "/jobs", "duplicate_key"),
            (b'{"jobs": [{"a": 1, "a": 2}]}', "/jobs/0/a", "duplicate_key"),
            (rb'{"jobs": [1, {"inputs": "\u0000"}]}', "/jobs/1/inputs", "nul_character"),
            (b'{"jobs": [NaN]}', "/jobs/0", "not_a_number"),
            (b'{"jobs":' + b"[" * 5000 + b"]" * 5000 + b"}", "/jobs" + "/0" * 31, "too_deep"),
        ],
        ids=lambda value: str(value)[:50],
    )  # fmt: skip
    def test_a_body_of_the_wrong_kind_refuses_all(
        self, post: Post, body: bytes, pointer: str, code: str
    ) -> None:
        answer = post(body)
        assert answer.status_code == 400
        assert (pointer, code) in pointers(answer)
        assert not Batch.objects.exists()

    def test_one_that_is_too_large_is_refused_unread(self, post: Post, settings: Settings) -> None:
        answer = post(b'{"jobs": ["' + b"x" * settings.MAX_BODY_BYTES + b'"]}')
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")

    def test_one_that_is_no_json_is_refused(self, post: Post, api: Client) -> None:
        assert post(b"{").json()["code"] == "invalid_json"
        answer = api.post("/v1/batches", b"jobs=1", content_type="text/plain")
        assert answer.status_code == 415

    def test_the_same_broken_body_again_and_again_is_told_so(self, post: Post) -> None:
        told = [post(b'{"jobs": []}').json()["code"] for _ in range(6)]
        assert told == ["invalid_request"] * 5 + ["repeat_failure"]


class TestKeys:
    def test_the_same_key_and_payload_give_the_same_batch(self, post: Post) -> None:
        first, again = (post([item(0), item(1), 7], Idempotency_Key="k") for _ in range(2))
        assert (first.status_code, again.status_code) == (202, 202)
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.headers["Location"] == first.headers["Location"]
        assert again.json()["jobs"][0]["job"]["id"] == first.json()["jobs"][0]["job"]["id"]
        assert codes(again) == ["", "", "invalid_request"]
        assert Job.objects.count() == 2

    def test_another_payload_is_refused(self, post: Post) -> None:
        post([item(0)], Idempotency_Key="k")
        answer = post([item(1)], Idempotency_Key="k")
        assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")

    def test_a_replay_asks_nothing_of_the_models(self, post: Post, toy: Revision) -> None:
        post([item()], Idempotency_Key="k")
        retire(toy)
        assert codes(post([item()], Idempotency_Key="k")) == [""]

    def test_the_key_of_the_whole_is_no_key_of_a_job(self, post: Post, submit: Post) -> None:
        post([item(0)], Idempotency_Key="k")
        assert submit({"inputs": {"sequence": "AAA"}}, Idempotency_Key="k").status_code == 202
        assert Job.objects.count() == 2

    @pytest.mark.parametrize("key", ["", " ", "é", "x" * 256])
    def test_a_key_that_cannot_be_one_is_a_400(self, post: Post, key: str) -> None:
        assert post([item()], Idempotency_Key=key).status_code == 400
        assert not Job.objects.exists()

    def test_one_repeated_inside_gives_the_same_job_or_a_422_for_that_item(
        self, post: Post
    ) -> None:
        keyed = item(0, idempotency_key="k")
        answer = post([keyed, keyed, item(1, idempotency_key="k")])
        first, again, other = answer.json()["jobs"]
        assert first["job"] == again["job"]
        assert other["error"]["code"] == "idempotency_key_reused"
        assert other["error"]["status"] == 422
        assert Job.objects.count() == 1

    def test_an_items_key_is_that_of_a_single_submit(self, post: Post, submit: Post) -> None:
        single = submit({"inputs": item()["inputs"]}, Idempotency_Key="k")
        (job,) = post([item(idempotency_key="k")]).json()["jobs"]
        assert job["job"]["id"] == single.json()["id"]
        again = submit({"inputs": item()["inputs"]}, Idempotency_Key="k")
        assert again.headers["Idempotency-Replayed"] == "true"


class TestLimits:
    @pytest.fixture(autouse=True)
    def _forget(self) -> None:
        quotas_kept.clear()

    def test_as_many_are_accepted_as_there_is_room_for(self, post: Post, tenant: Tenant) -> None:
        Quota.objects.create(tenant=tenant, waiting=2)
        answer = post([item(n) for n in range(5)])
        assert codes(answer) == ["", "", *["quota_exceeded"] * 3]
        refused = answer.json()["jobs"][4]["error"]
        assert refused["status"] == 429
        assert refused["limit"]["used"] == refused["limit"]["allowed"] == 2
        assert refused["retry_after_s"] >= 1

    def test_a_limit_of_one_model_names_what_else_could_serve_the_call(
        self, post: Post, tenant: Tenant, live_revision: MakeLive
    ) -> None:
        family = {"entry": "plugin:Plugin", "version": "1", "licence": "MIT", "family": "folding"}
        fold, _ = (live_revision(name=name, manifest=family) for name in ("fold", "other"))
        Quota.objects.create(tenant=tenant, model=fold.model, waiting=1)
        jobs = post([item(n, model="fold") for n in range(2)]).json()["jobs"]
        assert [each["model"] for each in jobs[1]["error"]["alternatives"]] == ["other"]

    def test_each_job_counts_as_a_request(self, post: Post, submit: Post, tenant: Tenant) -> None:
        Quota.objects.create(tenant=tenant, requests_per_minute=4)
        post([item(n) for n in range(4)])
        assert submit({"inputs": {"sequence": "A"}}).json()["limit"]["used"] == 4

    def test_without_any_room_the_whole_is_a_429(self, post: Post, tenant: Tenant) -> None:
        Quota.objects.create(tenant=tenant, waiting=0)
        answer = post([item(n) for n in range(5)], Idempotency_Key="k")
        assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.headers["RateLimit"]
        assert not Batch.objects.exists()


class TestShown:
    def test_its_counts_and_state_follow_its_jobs(
        self, post: Post, api: Client, toy: Revision
    ) -> None:
        url = post([item(n) for n in range(3)] + [7]).json()["urls"]["self"]
        done, running = services.claim(revision_id=toy.id, owner="w", limit=2)
        services.finish(done.fence, result={"big": "x" * 1000})
        told = api.get(url)
        assert told.json()["counts"] == {
            **dict.fromkeys(("failed", "cancelled", "expired"), 0),
            **dict.fromkeys(("queued", "running", "succeeded", "refused"), 1),
        }
        assert (told.json()["state"], told.headers["Retry-After"]) == ("open", "1")
        services.finish(running.fence, result={})
        (last,) = services.claim(revision_id=toy.id, owner="w")
        services.finish(last.fence, result={})
        told = api.get(url)
        assert (told.json()["state"], told.json()["poll_after_s"]) == ("done", None)
        assert "Retry-After" not in told.headers

    def test_its_etag_changes_when_one_of_its_jobs_does(
        self, post: Post, api: Client, toy: Revision
    ) -> None:
        url = post([item(0), item(1), 7]).json()["urls"]["self"]
        tags = [api.get(url).headers["ETag"]]
        unchanged = api.get(url, headers={"If-None-Match": tags[0]})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert unchanged.headers["ETag"] == tags[0]
        assert unchanged.headers["Retry-After"] == "1"
        services.claim(revision_id=toy.id, owner="w")
        tags.append(api.get(url, headers={"If-None-Match": tags[0]}).headers["ETag"])
        Job.objects.order_by("id")[1].delete()
        tags.append(api.get(url, headers={"If-None-Match": tags[1]}).headers["ETag"])
        assert len(set(tags)) == 3

    def test_a_job_that_was_removed_is_an_error_and_breaks_nothing(
        self, post: Post, api: Client
    ) -> None:
        url = post([item(0), item(1)]).json()["urls"]["self"]
        Job.objects.order_by("id")[0].delete()
        answer = api.get(url)
        assert answer.status_code == 200
        BatchAnswer.model_validate_json(answer.content)
        assert codes(answer) == ["job_not_found", ""]
        assert answer.json()["counts"]["queued"] == 1

    @pytest.mark.usefixtures("clock_stands_still")
    def test_it_takes_the_same_few_queries_however_many_jobs_it_has(
        self, post: Post, api: Client, django_assert_max_num_queries: Callable[..., Any]
    ) -> None:
        url = post([item(n) for n in range(50)]).json()["urls"]["self"]
        api.get(url)
        with django_assert_max_num_queries(7):
            api.get(url)

    @pytest.mark.usefixtures("clock_stands_still")
    def test_failed_jobs_that_name_alternatives_take_no_query_each(
        self, post: Post, api: Client, live_revision: MakeLive,
        django_assert_max_num_queries: Callable[..., Any],
    ) -> None:  # fmt: skip
        family = {"entry": "plugin:Plugin", "version": "1", "licence": "MIT", "family": "folding"}
        fold, _ = (live_revision(name=name, manifest=family) for name in ("fold", "other"))
        url = post([item(n, model="fold") for n in range(20)]).json()["urls"]["self"]
        for job in services.claim(revision_id=fold.id, owner="w", limit=20):
            services.fail(job.fence, error=job_error("model_error"))
        api.get(url)
        with django_assert_max_num_queries(7):
            jobs = api.get(url).json()["jobs"]
        named = [each["job"]["error"]["alternatives"][0]["model"] for each in jobs]
        assert named == ["other"] * 20

    @pytest.mark.parametrize("query", ["wait=any", "wait=all", "wait=all&timeout_s=50"])
    def test_asked_to_wait_it_answers_at_once_behind_the_waiting_room(
        self, post: Post, api: Client, query: str
    ) -> None:
        url = post([item()]).json()["urls"]["self"]
        assert api.get(f"{url}?{query}").status_code == 200

    @pytest.mark.parametrize(
        ("query", "pointer"),
        [
            ("wait=", "?wait"),
            ("wait=5", "?wait"),
            ("wait=ANY", "?wait"),
            ("wait=any&wait=all", "?wait"),
            ("timeout_s=5", "?timeout_s"),
            ("wait=any&timeout_s=51", "?timeout_s"),
            ("wait=any&timeout_s=0", "?timeout_s"),
            ("wait=any&timeout_s=-1", "?timeout_s"),
            ("wait=any&timeout_s=5.5", "?timeout_s"),
            ("wait=any&timeout_s=%D9%A1", "?timeout_s"),
            ("wait=any&timeout_s=" + "9" * 5000, "?timeout_s"),
            ("wait=any&timeout_s=0050999999", "?timeout_s"),
            ("until=all", "?until"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_wrong_parameters_are_a_400(
        self, post: Post, api: Client, query: str, pointer: str
    ) -> None:
        url = post([item()]).json()["urls"]["self"]
        answer = api.get(f"{url}?{query}")
        assert answer.status_code == 400
        assert pointers(answer)[0][0] == pointer


class TestCancel:
    def test_all_its_jobs_end(self, post: Post, api: Client) -> None:
        url = post([item(0), item(1), 7]).json()["urls"]["cancel"]
        for _ in range(2):
            answer = api.post(url)
            assert answer.status_code == 200
            assert answer.json()["state"] == "done"
            assert answer.json()["counts"]["cancelled"] == 2

    def test_a_missing_one_is_a_404(self, api: Client) -> None:
        for name in (str(uuid7()), "nonsense"):
            answer = api.post(f"/v1/batches/{name}/cancel")
            assert (answer.status_code, answer.json()["code"]) == (404, "batch_not_found")

    def test_who_has_no_request_left_may_cancel(
        self, post: Post, api: Client, tenant: Tenant
    ) -> None:
        url = post([item()]).json()["urls"]["cancel"]
        Quota.objects.create(tenant=tenant, requests_per_minute=0)
        quotas_kept.clear()
        assert api.post(url).status_code == 200


@pytest.mark.parametrize(
    ("scope", "answers"), [("read", (403, 200, 403)), ("submit", (202, 403, 200))]
)
def test_submitting_and_cancelling_need_the_scope_submit_and_showing_read(
    post: Post,
    api: Client,
    make_key: Callable[..., tuple[ApiKey, str]],
    scope: str,
    answers: tuple[int, int, int],
) -> None:
    _, key = make_key(scopes=[scope])
    by = {"Authorization": f"Bearer {key}"}
    urls = post([item(0)]).json()["urls"]
    told = [post([item(1)], **by), api.get(urls["self"], headers=by)]
    told.append(api.post(urls["cancel"], headers=by))
    assert tuple(each.status_code for each in told) == answers
