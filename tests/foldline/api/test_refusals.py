"""An agent that sends the same malformed call in a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from foldline.api import refusals as module
from foldline.api import submit as reading
from foldline.api.refusals import refusals

pytestmark = pytest.mark.django_db
Submit = Callable[..., Any]  # the test client's answer

WRONG: dict[str, Any] = {"inputs": {"sequence": "not amino acids"}}


@pytest.fixture(autouse=True)
def _nothing_refused() -> Iterator[None]:
    refusals.clear()
    yield
    refusals.clear()


def codes(submit: Submit, body: Any, *, times: int, **more: Any) -> list[str]:
    return [submit(body, **more).json()["code"] for _ in range(times)]


def test_the_sixth_refusal_in_a_row_tells_of_the_first(submit: Submit) -> None:
    first = submit(WRONG, X_Request_ID="first").json()
    assert codes(submit, WRONG, times=4) == ["invalid_input"] * 4
    answer = submit(WRONG)
    assert answer.status_code == 429
    assert answer.json()["code"] == "repeat_failure"
    assert answer.json()["first_error"] == first
    assert first["request_id"] == "first"
    assert codes(submit, WRONG, times=3) == ["repeat_failure"] * 3


@pytest.mark.parametrize("body", [b"{not json", {"inputs": {}, "unknown": 1}], ids=["400", "field"])
def test_malformed_requests_count_alike(submit: Submit, body: Any) -> None:
    said = codes(submit, body, times=6)
    assert said[4] != "repeat_failure"
    assert said[5] == "repeat_failure"


def test_another_call_and_another_tenant_are_not_concerned(
    submit: Submit, other_api: Client
) -> None:
    codes(submit, WRONG, times=6)
    assert codes(submit, {"inputs": {"sequence": "also wrong"}}, times=1) == ["invalid_input"]
    assert codes(submit, WRONG, times=1, by=other_api) == ["invalid_input"]
    assert submit().status_code == 202


def test_a_call_that_has_become_right_is_accepted_and_begins_anew(
    submit: Submit, api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"inputs": {"sequence": "EVQ", "template": "0199d3b4-0000-7000-8000-000000000000"}}
    assert codes(submit, body, times=6)[-1] == "repeat_failure"
    with monkeypatch.context() as there:
        there.setattr(reading, "_files", lambda *_: [])  # the file has been uploaded
        assert submit(body).status_code == 202
    assert codes(submit, body, times=1) == ["invalid_input"]


def test_refusals_are_forgotten_after_an_hour(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes(submit, WRONG, times=6)
    monkeypatch.setattr(module, "FORGOTTEN_AFTER_S", -1)
    assert codes(submit, WRONG, times=1) == ["invalid_input"]


def test_memory_is_bounded(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CALLS", 3)
    for number in range(5):
        submit({"inputs": {"sequence": f"wrong {number}"}})
    assert len(refusals._rows) == 3


def test_a_call_that_is_right_leaves_nothing_behind(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digested(*_: Any) -> Any:
        raise AssertionError("a digest was made of a call that is right")

    monkeypatch.setattr(module, "_call", digested)
    assert submit().status_code == 202
    assert not refusals._rows
