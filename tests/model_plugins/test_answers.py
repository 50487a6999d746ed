from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from model_plugins.answers import MAX_TRACEBACK_CHARS, answer, describe
from model_plugins.base import DependencyUnavailable, InvalidInput, PluginError
from model_plugins.contexts import Job


@pytest.fixture
def job(tmp_path: Path) -> Job:
    item = {"job": "a", "attempt": 1, "seed": 0, "scratch": str(tmp_path), "inputs": {}}
    item["checkpoints"] = str(tmp_path)
    return Job(item, is_cancelled=lambda: False, send=lambda kind, fields: None)


def test_an_output_file_anywhere_becomes_a_reference(job: Job) -> None:
    one = job.output("one.txt", media_type="text/plain")
    two = job.output("two.txt", media_type="text/plain")
    for file in (one, two):
        file.path.touch()

    told = answer({"files": [{"deep": (one, 1)}], "two": two}, job)

    assert told["result"] == {
        "files": [{"deep": [{"$file": "one.txt"}, 1]}],
        "two": {"$file": "two.txt"},
    }
    assert told["files"] == [
        {"name": "one.txt", "media_type": "text/plain"},
        {"name": "two.txt", "media_type": "text/plain"},
    ]


def test_warnings_go_with_the_answer(job: Job) -> None:
    job.warn("short", "The chain is short.")

    expected = [{"code": "short", "message": "The chain is short."}]
    assert answer({}, job)["warnings"] == expected
    assert answer(None, job)["warnings"] == expected


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "a result is a dict, not NoneType"),
        ([1], "a result is a dict, not list"),
        ({"a": {"b": [0, {1}]}}, "/a/b/1 is set"),
        ({"a": b"x"}, "/a is bytes"),
        ({"a": Path("x")}, "/a is pathlib"),
        ({"a": {1: 2}}, "a key at /a is int"),
        ({"a": math.inf}, "JSON"),
        ({"a": "\0"}, "NUL"),
        ({"a": 10**5000}, "JSON"),
    ],
)
def test_a_result_that_is_no_json_is_named_with_its_place(
    job: Job, result: Any, words: str
) -> None:
    error = answer(result, job)["error"]

    assert error["code"] == "model_output_invalid"
    assert words in error["message"]


def test_a_result_of_64_kib_is_the_largest(job: Job) -> None:
    assert "result" in answer({"a": "x" * (64 * 1024 - 8)}, job)
    assert answer({"a": "x" * (64 * 1024 - 7)}, job)["error"]["code"] == "output_too_large"


def test_an_announced_file_has_to_exist(job: Job) -> None:
    job.output("never.txt", media_type="text/plain")

    assert "never.txt" in answer({}, job)["error"]["message"]


def test_a_returned_error_is_an_error(job: Job) -> None:
    assert answer(DependencyUnavailable("no MSA server"), job)["error"] == {
        "code": "dependency_unavailable",
        "message": "no MSA server",
    }


def test_an_error_of_the_inputs_keeps_its_details() -> None:
    error = InvalidInput("too long", pointer="/chain", reason="too_long", got=900, expected=512)

    assert describe(error) == {
        "code": "invalid_input",
        "message": "too long",
        "details": {
            "pointer": "/chain",
            "code": "too_long",
            "got": 900,
            "expected": 512,
            "hint": "",
        },
    }


def test_details_that_are_no_json_become_short_texts() -> None:
    details = describe(PluginError("bad", got=math.nan, all="x" * 100_000))["details"]

    assert details["got"] == "nan"
    assert len(details["all"]) == 200


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), "host_oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "host_oom"),
        (OutOfMemoryError("CUDA out of memory"), "gpu_oom"),
        (type("Mine", (OutOfMemoryError,), {})(), "gpu_oom"),
    ],
)
def test_lack_of_memory_is_recognised_however_it_is_raised(error: Exception, code: str) -> None:
    assert describe(error)["code"] == code


def test_any_other_exception_comes_with_the_end_of_its_traceback() -> None:
    def deep(level: int) -> None:
        if level:
            deep(level - 1)
        raise KeyError("missing " + "y" * 10_000)

    try:
        deep(300)
    except KeyError as raised:
        told = describe(raised, otherwise="load_failed")

    assert told["code"] == "load_failed"
    assert told["message"].startswith("KeyError: ")
    assert len(told["message"]) < 1100
    assert len(told["traceback"]) <= MAX_TRACEBACK_CHARS
