"""Jobs, workers and files in the admin: shown, never changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from foldline.artifacts.models import Artifact
from foldline.fleet.models import Worker
from foldline.jobs.admission import Submission
from foldline.jobs.models import Job
from foldline.jobs.services import submit
from foldline.tenants.models import Tenant

pytestmark = pytest.mark.django_db
SEQUENCE = "EVQLVESGGGLVQ"


@pytest.fixture
def rows(
    tenant: Tenant, live_revision: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    monkeypatch.setattr("foldline.jobs.tickets.send", lambda queue, *, count=1: True)
    revision = live_revision()
    job = submit(
        Submission(
            tenant_id=tenant.pk,
            model_id=revision.model_id,
            revision_id=revision.pk,
            queue="q",
            inputs={"sequence": SEQUENCE},
            normalized_input={"sequence": SEQUENCE},
            seed=1,
            seed_origin="caller",
            fingerprint="f" * 64,
            payload_digest="",
        )
    )
    now = timezone.now()
    return {
        "jobs/job": Job.objects.get(pk=job.job_id),
        "artifacts/artifact": Artifact.objects.create(
            tenant=tenant, sha256="a" * 64, size=1, media_type="text/plain", name="x"
        ),
        "fleet/worker": Worker.objects.create(
            name="w1", revision=revision, node="here", pid=1, started_at=now, last_seen=now
        ),
    }


@pytest.mark.parametrize("page", ["jobs/job", "artifacts/artifact", "fleet/worker"])
def test_a_row_is_shown_and_cannot_be_changed(
    admin_client: Client, rows: dict[str, Any], page: str
) -> None:
    url = f"/admin/{page}/"
    assert admin_client.get(url).status_code == 200
    here = f"{url}{rows[page].pk}/"
    assert admin_client.get(f"{here}change/").status_code == 200
    assert admin_client.post(f"{here}change/", {}).status_code == 403
    assert admin_client.post(f"{here}delete/", {"post": "yes"}).status_code == 403
    assert admin_client.get(f"{url}add/").status_code == 403


def test_inputs_are_on_a_jobs_own_page_only(admin_client: Client, rows: dict[str, Any]) -> None:
    job = rows["jobs/job"]
    assert SEQUENCE not in admin_client.get("/admin/jobs/job/").content.decode()
    page = admin_client.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()
    assert SEQUENCE in page
    assert "queued" in page  # its first event


def test_what_a_caller_sent_is_shown_as_text(admin_client: Client, rows: dict[str, Any]) -> None:
    Job.objects.update(inputs={"sequence": "<script>alert(1)</script>"})
    url = f"/admin/jobs/job/{rows['jobs/job'].pk}/change/"
    page = admin_client.get(url).content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_search_for_a_job_finds_it(admin_client: Client, rows: dict[str, Any]) -> None:
    name = str(rows["jobs/job"].pk)
    assert name in admin_client.get(f"/admin/jobs/job/?q={name}").content.decode()
