"""A tenant's page: what it uses beside what it may use."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from foldline.artifacts.models import Artifact
from foldline.catalog.models import Model, Revision
from foldline.ids import first_id
from foldline.jobs.models import Job
from foldline.jobs.states import State
from foldline.ops.use import Line, use_beside_limits
from foldline.tenants.models import DailyUse, Quota, Tenant

pytestmark = pytest.mark.django_db
MakeJob = Callable[..., Job]


@pytest.fixture
def make_job(live_revision: Callable[..., Revision]) -> MakeJob:
    revisions: dict[str, Revision] = {}

    def make(tenant: Tenant, *, model: str = "toy", **changes: Any) -> Job:
        if model not in revisions:
            revisions[model] = live_revision(name=model)
        fields: dict[str, Any] = {
            "state": State.QUEUED,
            "created_at": timezone.now(),
            "inputs": {},
            "normalized_input": {},
            "seed": 0,
            "shared": False,
        }
        revision = revisions[model]
        return Job.objects.create(
            tenant=tenant, model=revision.model, revision=revision, **{**fields, **changes}
        )

    return make


def numbers(line: Line) -> dict[str, tuple[float, int | None]]:
    return {cell.name: (cell.used, cell.allowed) for cell in line.cells}


def test_use_is_counted_as_a_whole_and_by_model(
    tenant: Tenant, other_tenant: Tenant, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job(tenant)
    lease = {"owner": "w1", "attempt": 1, "lease_until": timezone.now()}
    make_job(tenant, state=State.RUNNING, **lease)
    make_job(tenant, model="other")
    make_job(tenant, id=first_id(timezone.now() - timedelta(seconds=90)))
    make_job(tenant, state=State.SUCCEEDED)
    make_job(other_tenant)
    now = timezone.now()
    monkeypatch.setattr("foldline.ops.use.database_now", lambda: now)
    today = now.date()
    for name, day, seconds in (
        ("toy", today, 10.5),
        ("other", today, 4),
        ("toy", today.replace(day=1) - timedelta(days=1), 1000),
    ):
        DailyUse.objects.create(tenant=tenant, model=name, day=day, gpu_seconds=seconds)
    Artifact.objects.create(tenant=tenant, sha256="a" * 64, size=77, media_type="x/y", name="f")
    Quota.objects.create(tenant=tenant, waiting=3, artifact_bytes=1000)
    Quota.objects.create(tenant=tenant, model=Model.objects.get(name="toy"), running=1)

    whole, other, toy = use_beside_limits(tenant.pk)
    assert [str(line.model) for line in (whole, other, toy)] == ["None", "other", "toy"]
    assert numbers(whole) == {
        "waiting": (3, 3),
        "running": (1, None),
        "requests_per_minute": (4, None),
        "gpu_seconds_day": (14.5, None),
        "gpu_seconds_month": (14.5, None),
        "artifact_bytes": (77, 1000),
    }
    assert numbers(toy)["waiting"] == (2, None)
    assert numbers(toy)["running"] == (1, 1)
    assert numbers(other)["requests_per_minute"] == (1, None)
    assert [cell.name for cell in whole.cells if cell.full] == ["waiting"]


def test_the_page_shows_use_beside_limits_and_where_to_set_them(
    admin_client: Client, tenant: Tenant, make_job: MakeJob
) -> None:
    url = f"/admin/tenants/tenant/{tenant.pk}/change/"
    assert f"/admin/tenants/quota/add/?tenant={tenant.pk}" in admin_client.get(url).content.decode()
    toy = make_job(tenant).model_id
    quota = Quota.objects.create(tenant=tenant, waiting=4321, allowed=False)
    shown = re.sub(r"\s+", " ", admin_client.get(url).content.decode())
    assert "1 / 4,321" in shown
    assert "All models (not allowed)" in shown
    assert f"/admin/tenants/quota/{quota.pk}/change/" in shown
    assert f"/admin/tenants/quota/add/?tenant={tenant.pk}&amp;model={toy}" in shown


def test_who_may_not_set_limits_sees_use_without_links(
    client: Client, tenant: Tenant, django_user_model: Any
) -> None:
    bob = django_user_model.objects.create(username="bob", is_staff=True)
    bob.user_permissions.add(Permission.objects.get(codename="view_tenant"))
    client.force_login(bob)
    shown = client.get(f"/admin/tenants/tenant/{tenant.pk}/change/").content.decode()
    assert "All models" in shown
    assert "/admin/tenants/quota/" not in shown


def test_a_tenant_is_switched_off_and_never_deleted(admin_client: Client, tenant: Tenant) -> None:
    url = f"/admin/tenants/tenant/{tenant.pk}/"
    admin_client.post(f"{url}change/", {"slug": tenant.slug, "name": tenant.name})
    tenant.refresh_from_db()
    assert not tenant.active
    assert admin_client.post(f"{url}delete/", {"post": "yes"}).status_code == 403


def test_a_new_tenant_has_no_use_to_show(admin_client: Client) -> None:
    assert admin_client.get("/admin/tenants/tenant/add/").status_code == 200
    form = {"slug": "lab-n", "name": "N", "active": "on"}
    assert admin_client.post("/admin/tenants/tenant/add/", form).status_code == 302
