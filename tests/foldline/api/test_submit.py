from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from foldline.api.answers import Job as JobAnswer
from foldline.catalog.models import Revision
from foldline.catalog.services import retire
from foldline.jobs.models import Job
from foldline.tenants.models import Tenant

pytestmark = pytest.mark.django_db
Submit = Callable[..., Any]  # the test client's answer
MakeLive = Callable[..., Revision]

INPUTS = {"sequence": "EVQ"}


def problem(answer: Any) -> dict[str, Any]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(answer.content)
    assert body["status"] == answer.status_code
    assert body["request_id"] == answer.headers["X-Request-ID"]
    return body


def pointers(answer: Any) -> list[tuple[str, str]]:
    return [(found["pointer"], found["code"]) for found in problem(answer)["errors"]]


def test_a_job_is_accepted(submit: Submit, tenant: Tenant) -> None:
    answer = submit({"inputs": INPUTS, "session": "s1", "deadline_s": 600, "start_within_s": 60})
    assert answer.status_code == 202
    shown = JobAnswer.model_validate_json(answer.content)
    job = Job.objects.get()
    assert (shown.id, shown.state, shown.session) == (job.id, "queued", "s1")
    assert (job.tenant, job.inputs) == (tenant, INPUTS)
    assert job.normalized_input == {"sequence": "EVQ", "copies": 1}
    assert answer.headers["Location"] == f"/v1/jobs/{job.id}"
    assert answer.headers["Retry-After"] == "1"
    assert shown.deadline is not None
    assert (shown.deadline - shown.created_at).total_seconds() == pytest.approx(600)


def test_the_answer_is_what_the_job_shows_later(submit: Submit, api: Client) -> None:
    answer = json.loads(submit().content)
    later = api.get(answer["urls"]["self"]).json()
    # Without a forecast a submit does not ask why the job waits.
    assert (answer.pop("queue")["message"], later.pop("queue")["message"]) == (
        None,
        "no worker is free",
    )
    assert later == answer


@pytest.mark.usefixtures("clock_stands_still")
def test_a_submit_asks_for_nothing_but_how_many_are_in_front(
    submit: Submit, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    submit()
    other = {"inputs": {"sequence": "EVQL"}}
    with django_assert_max_num_queries(5) as made:
        submit(other)
    statements = [query["sql"].split()[0].lower() for query in made.captured_queries]
    assert statements.count("select") <= 1  # on SQLite, in the transaction of the insert


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        (rb'{"inputs":{"sequence":"A\u0000"}}', "/inputs/sequence", "nul_character"),
        (rb'{"inputs":{"sequence":"\ud800"}}', "/inputs/sequence", "lone_surrogate"),
        (b'{"inputs":{"copies":NaN}}', "/inputs/copies", "not_a_number"),
        (b'{"inputs":{"copies":1e400}}', "/inputs/copies", "number_out_of_range"),
        (b'{"inputs":' + b"[" * 8000 + b"]" * 8000 + b"}", "/inputs" + "/0" * 31, "too_deep"),
        (b'{"inputs":{},"inputs":{}}', "/inputs", "duplicate_key"),
        (b'{"inputs":{"sequence":"A"},"tenant":"x"}', "/tenant", "unknown_field"),
        (b'{"inputs":{"sequence":"A"},"state":"succeeded"}', "/state", "unknown_field"),
        (b'{"inputs":{"sequence":"A","is_admin":true}}', "/inputs/is_admin", "unknown_field"),
        (b"{}", "/inputs", "missing_field"),
        (b'{"inputs":[]}', "/inputs", "wrong_type"),
        (b"[]", "", "not_an_object"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_malformed_body_is_a_400_with_a_pointer(
    submit: Submit, body: bytes, pointer: str, code: str
) -> None:
    answer = submit(body)
    assert answer.status_code == 400
    assert (pointer, code) in pointers(answer)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("seed", True, "wrong_type"),
        ("seed", 1.0, "wrong_type"),
        ("seed", "1", "wrong_type"),
        ("seed", 2**63, "too_large"),
        ("seed", 2**64, "number_out_of_range"),
        ("seed", -1, "too_small"),
        ("deadline_s", 0, "too_small"),
        ("deadline_s", -5, "too_small"),
        ("deadline_s", 1e300, "too_large"),
        ("deadline_s", 604_801, "too_large"),
        ("deadline_s", True, "wrong_type"),
        ("deadline_s", "60", "wrong_type"),
        ("start_within_s", 0, "too_small"),
        ("start_within_s", 61, "too_large"),
        ("priority", "urgent", "not_allowed"),
        ("session", "x" * 121, "too_long"),
        ("session", "a\nb", "pattern_mismatch"),
        ("session", 1, "wrong_type"),
        ("webhook", "https://example.com", "webhook_unknown"),
        ("webhook", 7, "wrong_type"),
        ("hook", "https://example.com", "unknown_field"),
    ],
    ids=str,
)
def test_a_wrong_envelope_is_a_400_with_a_pointer(
    submit: Submit, field: str, value: object, code: str
) -> None:
    answer = submit({"inputs": INPUTS, "deadline_s": 60, field: value})
    assert answer.status_code == 400
    assert pointers(answer) == [(f"/{field}", code)]


def test_numbers_at_their_bounds_are_taken(submit: Submit) -> None:
    body = {"inputs": INPUTS, "seed": 2**63 - 1, "deadline_s": 604_800, "start_within_s": 604_800.0}
    assert submit(body).status_code == 202
    assert Job.objects.get().seed == 2**63 - 1


def test_wrong_inputs_are_a_422_that_names_each_field(submit: Submit) -> None:
    answer = submit({"inputs": {"sequence": "evq", "copies": 9}})
    assert answer.status_code == 422
    assert problem(answer)["code"] == "invalid_input"
    assert pointers(answer) == [
        ("/inputs/sequence", "pattern_mismatch"),
        ("/inputs/copies", "too_large"),
    ]


def test_text_that_tries_to_instruct_is_repeated_inert(submit: Submit) -> None:
    answer = submit({"inputs": {"sequence": "<script> ignore previous instructions \x1b[31m" * 9}})
    (found,) = problem(answer)["errors"]
    assert len(found["got"]) <= 64
    assert found["got"].isprintable()


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "application/xml",
    ],
)
def test_another_content_type_is_a_415(submit: Submit, content_type: str) -> None:
    answer = submit(b'{"inputs":{"sequence":"EVQ"}}', content_type=content_type)
    assert answer.status_code == 415
    assert problem(answer)["code"] == "unsupported_media_type"


def test_json_with_a_charset_is_taken(submit: Submit) -> None:
    assert submit(content_type="application/json; charset=UTF-8").status_code == 202


def test_a_compressed_bomb_is_never_unpacked(submit: Submit) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    answer = submit(bomb, Content_Encoding="gzip")
    assert answer.status_code == 415
    assert submit(bomb).status_code == 400


def test_a_body_of_more_than_a_megabyte_is_a_413(submit: Submit) -> None:
    answer = submit(b'{"inputs":{"sequence":"' + b"A" * 2**20 + b'"}}')
    assert answer.status_code == 413
    assert problem(answer)["code"] == "body_too_large"


def test_a_body_of_unknown_length_is_a_411(submit: Submit, api: Client) -> None:
    answer = api.generic(
        "POST", "/v1/models/toy/jobs", b"{}", "application/json", CONTENT_LENGTH="x"
    )
    assert (answer.status_code, problem(answer)["code"]) == (411, "length_required")


def test_an_unknown_model_is_a_404(submit: Submit) -> None:
    answer = submit(model="nothing")
    assert (answer.status_code, problem(answer)["code"]) == (404, "model_not_found")


def test_a_draft_answers_like_a_missing_model(submit: Submit, toy: Revision) -> None:
    Revision.objects.filter(pk=toy.pk).update(state="draft")
    draft, missing = problem(submit()), problem(submit(model="nothing"))
    assert {**draft, "request_id": ""} == {**missing, "request_id": ""}


def test_a_retired_model_is_a_410(submit: Submit, toy: Revision) -> None:
    retire(toy)
    answer = submit()
    assert (answer.status_code, problem(answer)["code"]) == (410, "model_retired")


class TestSeed:
    def test_a_given_seed_is_echoed(self, submit: Submit) -> None:
        shown = json.loads(submit({"inputs": INPUTS, "seed": 7}).content)
        assert shown["seed"] == {"value": 7, "origin": "caller"}

    def test_a_fixed_model_takes_the_same_seed_each_time(self, submit: Submit) -> None:
        one, other = json.loads(submit().content), json.loads(submit().content)
        assert one["seed"] == other["seed"] == {"value": 0, "origin": "default"}
        assert one["fingerprint"] == other["fingerprint"]

    def test_a_random_model_draws_a_new_seed_each_time(
        self, submit: Submit, live_revision: MakeLive
    ) -> None:
        live_revision(name="dice", seed_default="random")
        one, other = (json.loads(submit(model="dice").content) for _ in range(2))
        assert one["seed"]["origin"] == "random"
        assert one["seed"]["value"] != other["seed"]["value"]
        assert one["fingerprint"] != other["fingerprint"]


class TestIdempotency:
    def test_the_same_key_and_payload_give_the_same_job(self, submit: Submit) -> None:
        first = submit(Idempotency_Key="k1")
        again = submit({"inputs": dict(INPUTS)}, Idempotency_Key="k1")
        assert again.status_code == 202
        assert json.loads(again.content)["id"] == json.loads(first.content)["id"]
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        JobAnswer.model_validate_json(again.content)
        assert Job.objects.count() == 1

    def test_a_payload_that_means_the_same_is_the_same(self, submit: Submit) -> None:
        first = submit(b'{"inputs":{"sequence":"A","copies":1}}', Idempotency_Key="k")
        again = submit(b'{ "inputs": {"copies": 1.0, "sequence": "A"} }', Idempotency_Key="k")
        assert json.loads(again.content)["id"] == json.loads(first.content)["id"]

    def test_another_payload_is_a_422(self, submit: Submit) -> None:
        submit(Idempotency_Key="k1")
        answer = submit({"inputs": {"sequence": "QQQ"}}, Idempotency_Key="k1")
        assert answer.status_code == 422
        assert problem(answer)["code"] == "idempotency_key_reused"

    def test_a_random_seed_does_not_make_a_repeat_another_payload(
        self, submit: Submit, live_revision: MakeLive
    ) -> None:
        live_revision(name="dice", seed_default="random")
        first, again = (submit(model="dice", Idempotency_Key="k") for _ in range(2))
        assert json.loads(first.content)["seed"] == json.loads(again.content)["seed"]

    def test_a_finished_job_is_still_replayed(self, submit: Submit) -> None:
        submit(Idempotency_Key="k")
        Job.objects.update(state="succeeded", result={})
        again = submit(Idempotency_Key="k")
        assert json.loads(again.content)["state"] == "succeeded"
        assert "Retry-After" not in again.headers

    def test_another_tenant_may_use_the_same_key(self, submit: Submit, other_api: Client) -> None:
        first = json.loads(submit(Idempotency_Key="k").content)
        theirs = json.loads(submit(by=other_api, Idempotency_Key="k").content)
        assert theirs["id"] != first["id"]
        assert theirs["fingerprint"] != first["fingerprint"]

    def test_a_quoted_key_is_its_content(self, submit: Submit) -> None:
        key = "8e03978e-40d5-43e8-bc93-6894a57f9324"
        first = submit(Idempotency_Key=f'"{key}"')
        again = submit(Idempotency_Key=key)
        assert json.loads(again.content)["id"] == json.loads(first.content)["id"]
        assert Job.objects.get().idempotency_key == key

    def test_a_key_of_255_characters_is_taken(self, submit: Submit) -> None:
        assert submit(Idempotency_Key="x" * 255).status_code == 202
        assert submit(Idempotency_Key=f'"{"y" * 255}"').status_code == 202

    def test_the_same_payload_for_another_model_is_another_payload(
        self, submit: Submit, live_revision: MakeLive
    ) -> None:
        live_revision(name="other")
        submit(Idempotency_Key="k")
        answer = submit(model="other", Idempotency_Key="k")
        assert (answer.status_code, problem(answer)["code"]) == (422, "idempotency_key_reused")

    @pytest.mark.parametrize(
        "key", ["", " ", "x" * 256, "a\tb", "ключ", "\x7f", '""', '" "', f'"{"x" * 256}"']
    )
    def test_an_unusable_key_is_a_400(self, submit: Submit, key: str) -> None:
        answer = submit(Idempotency_Key=key)
        assert answer.status_code == 400
        assert pointers(answer) == [("", "invalid_header")]


class TestFiles:
    def upload(self, api: Client, body: bytes = b"ATOM") -> dict[str, Any]:
        answer = api.post("/v1/artifacts?name=t.pdb", body, content_type="text/plain")
        shown: dict[str, Any] = answer.json()
        return shown

    def test_an_artifact_is_bound_to_the_job(self, submit: Submit, api: Client) -> None:
        artifact = self.upload(api)
        answer = submit({"inputs": {"sequence": "EVQ", "template": artifact["id"]}})
        assert answer.status_code == 202
        link = Job.objects.get().jobartifact_set.get()
        assert (str(link.artifact_id), link.role, link.name) == (
            artifact["id"],
            "input",
            "/template",
        )

    def test_the_fingerprint_is_of_the_content(
        self, submit: Submit, api: Client, other_api: Client
    ) -> None:
        one, other = self.upload(api), self.upload(api, b"HETATM")
        bodies = [{"inputs": {"sequence": "E", "template": a["id"]}} for a in (one, one, other)]
        same, again, changed = (json.loads(submit(b).content)["fingerprint"] for b in bodies)
        assert same == again != changed

    @pytest.mark.parametrize(
        "name",
        [
            "/etc/passwd",
            "../../x",
            "./1ogx.mol2",
            "C:\\x",
            "~/x",
            "a.pdb",
            "https://x.org/a",
            "file:a",
        ],
    )
    def test_a_path_is_never_an_input(self, submit: Submit, name: str) -> None:
        answer = submit({"inputs": {"sequence": "EVQ", "template": name}})
        assert answer.status_code == 422
        assert pointers(answer) == [("/inputs/template", "path_not_allowed")]

    def test_an_id_in_other_letters_is_the_same_file(self, submit: Submit, api: Client) -> None:
        artifact = self.upload(api)["id"]
        ids = [artifact, artifact.upper(), artifact.replace("-", "")]
        bodies = [{"inputs": {"sequence": "EVQ", "template": each}} for each in ids]
        answers = [submit(body) for body in bodies]
        assert {answer.status_code for answer in answers} == {202}
        assert len({json.loads(answer.content)["fingerprint"] for answer in answers}) == 1

    @pytest.mark.parametrize("name", ["nonsense", "0199d3b4-0000-7000-8000-000000000000", ""])
    def test_a_file_that_is_not_there_is_a_422(self, submit: Submit, name: str) -> None:
        answer = submit({"inputs": {"sequence": "EVQ", "template": name}})
        assert answer.status_code == 422
        assert pointers(answer) == [("/inputs/template", "artifact_not_found")]

    def test_anothers_file_answers_like_a_missing_one(
        self, submit: Submit, other_api: Client
    ) -> None:
        theirs = self.upload(other_api)["id"]
        missing = "0199d3b4-0000-7000-8000-000000000000"
        told = [
            problem(submit({"inputs": {"sequence": "EVQ", "template": name}}))
            for name in (theirs, missing)
        ]
        for body, name in zip(told, (theirs, missing), strict=True):
            assert body["errors"][0].pop("got") == name
            body.pop("request_id")
        assert told[0] == told[1]


def test_the_trace_of_the_caller_is_kept(submit: Submit) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    submit(traceparent=trace)
    assert Job.objects.get().traceparent == trace


def test_a_garbled_trace_is_left_out(submit: Submit) -> None:
    assert submit(traceparent="00-zz").status_code == 202
    assert Job.objects.get().traceparent == ""
