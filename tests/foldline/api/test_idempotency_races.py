"""The first use of a key by many callers at the same moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from foldline.jobs.models import Job
from tests.at_once import at_once

pytestmark = pytest.mark.django_db(transaction=True)
Submit = Callable[..., Any]  # the test client's answer
CALLERS = 20


def test_twenty_first_uses_of_one_key_make_exactly_one_job(submit: Submit) -> None:
    answers = at_once([partial(submit, Idempotency_Key="k")] * CALLERS)
    assert {answer.status_code for answer in answers} == {202}
    job = Job.objects.get()
    assert {json.loads(answer.content)["id"] for answer in answers} == {str(job.id)}
    replayed = [answer.headers.get("Idempotency-Replayed") for answer in answers]
    assert replayed.count("true") == CALLERS - 1


def test_of_two_payloads_with_one_key_exactly_one_is_accepted(submit: Submit) -> None:
    bodies = [{"inputs": {"sequence": letter * 3}} for letter in "EV"]
    # Not more than five of each: a sixth refusal in a row is a `repeat_failure`.
    calls = [partial(submit, body, Idempotency_Key="k") for body in bodies * 5]
    answers = at_once(calls)
    job = Job.objects.get()
    told = [(answer.status_code, answer.json().get("code")) for answer in answers]
    assert set(told) == {(202, None), (422, "idempotency_key_reused")}
    accepted = {answer.json()["id"] for answer in answers if answer.status_code == 202}
    assert accepted == {str(job.id)}
    assert told.count((202, None)) == 5
