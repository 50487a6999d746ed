"""`ETag`, `If-None-Match`, `wait` and events, as Django answers them: at once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from foldline.api.conditions import matches
from foldline.jobs import services
from foldline.jobs.models import Job
from tests.foldline.api.conftest import Submit

pytestmark = pytest.mark.django_db

TAG = '"0123456789abcdef"'


@pytest.mark.parametrize(
    ("header", "same"),
    [
        (None, False),
        ("", False),
        (TAG, True),
        (f"W/{TAG}", True),
        ("*", True),
        (" * ", True),
        (f'"other", W/{TAG}', True),
        (f'"other",{TAG}, "third"', True),
        ('"other"', False),
        (TAG.strip('"'), False),  # a tag has quotes
        (f"w/{TAG}", False),  # and a weak one a capital letter
        (f"nonsense, {TAG}", True),  # what cannot be read of a list is left out
        ('"0123456789ABCDEF"', False),
        ('"\x00', False),
    ],
)
def test_if_none_match_is_read_as_rfc_9110_says(header: str | None, same: bool) -> None:  # noqa: FBT001 - a table
    assert matches(header, TAG) is same


def shown(api: Client, job_id: str, **headers: str) -> Any:
    return api.get(f"/v1/jobs/{job_id}", headers=headers)


def test_every_answer_about_a_job_has_a_strong_etag(submit: Submit, api: Client) -> None:
    job_id = submit().json()["id"]
    tag = shown(api, job_id)["ETag"]
    assert tag.startswith('"')
    assert shown(api, job_id)["ETag"] == tag
    cancelled = api.post(f"/v1/jobs/{job_id}/cancel")
    assert cancelled["ETag"] != tag
    assert cancelled["ETag"] == shown(api, job_id)["ETag"]
    assert cancelled["Cache-Control"] == "private, no-cache"


def test_unchanged_is_304_with_the_headers_of_the_answer(submit: Submit, api: Client) -> None:
    job_id = submit().json()["id"]
    whole = shown(api, job_id)
    for method in (api.get, api.head):
        same = method(f"/v1/jobs/{job_id}", headers={"If-None-Match": whole["ETag"]})
        assert (same.status_code, same.content) == (304, b"")
        for name in ("ETag", "Cache-Control", "Retry-After"):
            assert same[name] == whole[name]
    services.cancel(tenant_id=Job.objects.get().tenant_id, job_id=UUID(job_id))
    changed = shown(api, job_id, **{"If-None-Match": whole["ETag"]})
    assert (changed.status_code, changed.json()["state"]) == (200, "cancelled")
    ended = shown(api, job_id, **{"If-None-Match": changed["ETag"]})
    assert ended.status_code == 304
    assert "Retry-After" not in ended.headers


def test_a_wait_is_checked_and_not_waited_for(submit: Submit, api: Client) -> None:
    job_id = submit().json()["id"]
    assert api.get(f"/v1/jobs/{job_id}?wait=50").json()["state"] == "queued"
    for wrong in ("0", "51", "x", ""):
        refused = api.get(f"/v1/jobs/{job_id}?wait={wrong}")
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "?wait")


def test_without_the_door_events_are_those_so_far(submit: Submit, api: Client) -> None:
    job = submit().json()
    answer = api.get(job["urls"]["events"])
    assert answer["Content-Type"] == "text/event-stream"
    assert answer.content.count(b"event: state\n") == 1
    after = api.get(job["urls"]["events"], headers={"Last-Event-ID": "1"})
    assert b"event:" not in after.content
