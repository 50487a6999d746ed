from __future__ import annotations

import json

import pytest

from foldline import errors
from foldline.errors import CATALOGUE, FoldlineError, finding, job_error, pointer, problem, shown

JOB_CODES = [
    "invalid_input",
    "gpu_oom",
    "host_oom",
    "deadline_exceeded",
    "expired",
    "dependency_unavailable",
    "broker",
    "storage",
    "worker_lost",
    "poison",
    "model_error",
    "model_output_invalid",
    "plugin_crashed",
    "plugin_exited",
    "plugin_no_answer",
    "protocol_broken",
    "output_too_large",
    "cancelled",
    "weights_mismatch",
    "load_failed",
]


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=CATALOGUE.keys())
def test_every_error_says_what_happened_and_what_to_do(kind: type[FoldlineError]) -> None:
    body = problem(kind(), "r1")
    assert body["title"]
    assert body["detail"].endswith(".")
    assert body["suggested_action"].endswith(".")
    assert 400 <= body["status"] < 600
    assert body["fault"] in ("caller", "platform", "model")
    assert body["type"] == f"/v1/errors/{kind.code}"
    json.dumps(body)


def test_codes_are_unique() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type)]
    codes = [vars(k)["code"] for k in kinds if vars(k).get("code")]
    assert sorted(codes) == sorted(CATALOGUE)


@pytest.mark.parametrize("code", JOB_CODES)
def test_every_way_a_job_fails_is_in_the_catalogue(code: str) -> None:
    body = job_error(code)
    assert body["code"] == code
    assert "request_id" not in body


def test_a_failed_job_never_answers_with_a_server_error() -> None:
    # 5xx would make clients fetch the same result again and again.
    failures = [kind for kind in CATALOGUE.values() if issubclass(kind, errors.JobFailure)]
    assert failures
    assert all(kind.status < 500 for kind in failures)


# What no tool of MCP can meet: it asks for no such thing.
NOT_OF_TOOLS = {
    *("not_found", "batch_not_found", "artifact_not_found", "link_expired"),
    *("webhook_not_found", "error_code_not_found"),
}


@pytest.mark.parametrize("code", sorted(CATALOGUE.keys() - NOT_OF_TOOLS))
def test_a_caller_that_has_tools_is_not_sent_to_an_address(code: str) -> None:
    kind = CATALOGUE[code]
    assert "/v1/" not in (kind.tool_action or kind.suggested_action)


def test_an_unknown_code_of_a_model_is_a_model_error() -> None:
    body = job_error("strange", "the model said so")
    assert body["code"] == "model_error"
    assert body["detail"] == "the model said so"
    assert body["details"] == {"model_code": "strange"}


def test_invalid_input_of_a_plugin_points_into_the_request() -> None:
    body = job_error(
        "invalid_input", "no", pointer="/heavy", code="too_long", got=0, expected=None, hint="cut"
    )
    assert body["errors"] == [
        {"pointer": "/inputs/heavy", "code": "too_long", "got": "0", "expected": "", "hint": "cut"}
    ]


def test_the_cause_of_a_poison_job_is_kept() -> None:
    cause = job_error("worker_lost")
    assert job_error("poison", cause=cause)["details"]["cause"] == cause


def test_a_wait_is_told() -> None:
    assert problem(errors.DatabaseUnavailable(retry_after_s=5), "r")["retry_after_s"] == 5


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x00\n<script>", "[31mred<script>"),
        ("a" * 100, "a" * 63 + "…"),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        ({"position": 5, "letter": "*"}, '{"position": 5, "letter": "*"}'),
        (dict.fromkeys(range(9)), "an object of 9"),
        ([1, 2], "[1, 2]"),
        ([0] * 9, "a list of 9"),
        ("\ud800x", "x"),
    ],
)
def test_a_callers_value_is_repeated_short_and_without_control_characters(
    value: object, told: str
) -> None:
    assert shown(value) == told


def test_pointers_escape_slash_and_tilde() -> None:
    assert pointer("a/b", "c~d", 3) == "/a~1b/c~0d/3"
    assert finding(pointer("x\x00y"), "c")["pointer"] == "/xy"
