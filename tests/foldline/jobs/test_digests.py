from __future__ import annotations

import traceback

import pytest

from foldline.errors import job_error
from foldline.jobs.digests import failure_digest, with_digest


def boom(message: str, kind: type[Exception] = ValueError) -> str:
    """The traceback of an exception that is always raised in this line."""
    try:
        raise kind(message)
    except kind as error:
        return "".join(traceback.format_exception(error))


def digest(text: str) -> str:
    return failure_digest(job_error("model_error", "x", traceback=text))


def test_the_same_place_and_kind_have_the_same_digest_whatever_the_message() -> None:
    assert digest(boom("size 17\nKeyError: not this")) == digest(boom("size 99"))


def test_another_place_or_kind_has_another() -> None:
    try:
        raise ValueError("size 17")
    except ValueError as error:
        elsewhere = "".join(traceback.format_exception(error))
    assert len({digest(boom("a")), digest(boom("a", KeyError)), digest(elsewhere)}) == 3


def test_where_the_folder_lies_does_not_matter() -> None:
    here = boom("a")
    assert digest(here) == digest(here.replace('File "/', 'File "/another/machine/'))


def test_without_a_traceback_the_message_counts_without_its_numbers() -> None:
    one, other = (
        failure_digest(job_error("gpu_oom", f"Tried to allocate {size} GiB at 0x{size}f."))
        for size in (2, 31)
    )
    assert one == other
    assert one != failure_digest(job_error("gpu_oom", "Something else."))
    assert one != failure_digest(job_error("host_oom", "Tried to allocate 2 GiB at 0x2f."))


def test_a_poison_job_has_the_digest_of_its_cause() -> None:
    cause = job_error("plugin_crashed", "by signal 11")
    assert failure_digest(job_error("poison", cause=cause)) == failure_digest(cause)


@pytest.mark.parametrize("error", [{"code": "x"}, {"code": "x", "details": {"traceback": ""}}])
def test_an_error_that_says_little_has_one_too(error: dict[str, object]) -> None:
    assert len(failure_digest(error)) == 12
    assert with_digest(error)["details"]["digest"] == failure_digest(error)
