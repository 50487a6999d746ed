"""Inputs that real users sent, through the API to its decision: `tests/cases/README.md`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from foldline.catalog.models import Revision
from foldline.environment import ROOT
from foldline.jobs.models import Job
from model_plugins.registry import BUILTIN_ROOT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unsent")]

CASES = sorted(expect.parent for expect in (ROOT / "tests" / "cases").glob("*/expect.json"))
ROWS = {1, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 16, 22, 23, 24, 40, 45, 48}


def read(case: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((case / name).read_text())
    return found


def asked(api: Client, case: Path, *, address: str) -> Any:
    """The answer to a case's call, its files uploaded first."""
    request = read(case, "request.json")
    url = f"/v1/models/{request['model']}/{address}"
    if "body" in request:
        body = (case / request["body"]).read_bytes()
        return api.post(url, body, content_type=request["content_type"])
    inputs = dict(request["inputs"])
    for field, file in request.get("files", {}).items():
        name = quote(request.get("names", {}).get(field, file))
        sent = upload(api, (case / file).read_bytes(), name=name)
        inputs[field] = sent.json()["id"]
    return api.post(url, {"inputs": inputs}, content_type="application/json")


def upload(api: Client, body: bytes, *, name: str) -> Any:
    url = f"/v1/artifacts?name={name}"
    # The test client leaves the length of an empty file out.
    return api.generic("POST", url, body, "x/y", CONTENT_LENGTH=str(len(body)))


def wrong_with(case: Path, submitted: Any, estimated: Any) -> str:
    """What is not as the case expects it; nothing when all is."""
    expected = read(case, "expect.json")
    if submitted.status_code >= 500 or estimated.status_code >= 500:
        return f"{submitted.status_code}, {estimated.status_code}"
    if expected["answer"] == "reject":
        told = [refused(answer, expected) for answer in (submitted, estimated)]
        return next(filter(None, told), "") or ("a job was made" if Job.objects.exists() else "")
    if (submitted.status_code, estimated.status_code) != (202, 200):
        return f"refused: {submitted.content!r}"
    job = Job.objects.get()
    codes = [warning["code"] for warning in submitted.json()["warnings"]]
    understood = {name: job.normalized_input[name] for name in expected.get("inputs", {})}
    same = estimated.json()
    checks = {
        "warnings": codes == expected["warnings"],
        "inputs": understood == expected.get("inputs", {}),
        "stored": job.warnings == submitted.json()["warnings"],
        "estimate": [w["code"] for w in same["warnings"]] == codes
        and same["normalized_inputs"] == job.normalized_input,
    }
    return ", ".join(name for name, fine in checks.items() if not fine)


def refused(answer: Any, expected: Mapping[str, Any]) -> str:
    body = answer.json()
    status = expected.get("status", 422)
    code = expected["code"] if "status" in expected else "invalid_input"
    if (answer.status_code, body["code"]) != (status, code):
        return f"{answer.status_code} {body['code']}"
    if "pointer" not in expected:
        return ""
    found = body["errors"][0]
    if found["pointer"] != f"/inputs{expected['pointer']}":
        return f"at {found['pointer']}"
    return "" if found["code"] == expected.get("finding", expected["code"]) else found["code"]


def test_real_world_inputs_are_answered_as_specified(
    api: Client,
    live_revision: Callable[..., Revision],
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings.PREFLIGHT_S = 60.0  # what a plugin says counts here, however slow this machine is
    for model in ("flash_abb", "proteinmpnn", "structure_score"):
        live_revision(folder=BUILTIN_ROOT / model)
    wrong = {}
    for case in CASES:
        Job.objects.all().delete()
        answers = [asked(api, case, address=address) for address in ("jobs", "estimate")]
        if told := wrong_with(case, *answers):
            wrong[case.name] = told
    with capsys.disabled():
        right = len(CASES) - len(wrong)
        print(f"\n{right}/{len(CASES)} real-world inputs answered as specified")  # noqa: T201 - the figure
    assert wrong == {}


def test_every_row_of_text_and_json_is_answered_or_said_to_wait() -> None:
    answered = {row for case in CASES if (row := read(case, "request.json").get("row"))}
    readme = (ROOT / "tests" / "cases" / "README.md").read_text()
    waiting = {row for row in ROWS if f"\n| {row} | not yet |" in readme}
    assert answered | waiting >= ROWS
    assert not answered & waiting
