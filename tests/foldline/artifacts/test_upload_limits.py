from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from django.conf import settings

from foldline.artifacts.models import Artifact
from foldline.artifacts.selectors import stored_bytes
from foldline.artifacts.services import Stored, store_file, store_upload
from foldline.errors import QuotaForbids
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quotas import quotas_kept
from tests.at_once import at_once

pytestmark = pytest.mark.django_db


@pytest.fixture
def limited(tenant: Tenant) -> Tenant:
    """It may keep ten bytes."""
    Quota.objects.create(tenant=tenant, artifact_bytes=10)
    quotas_kept.clear()
    return tenant


def upload(tenant: Tenant, content: bytes) -> Stored:
    return store_upload(tenant_id=tenant.id, chunks=[content], name="file")


def files_on_disk() -> int:
    return sum(path.is_file() for path in Path(settings.ARTIFACTS_DIR).rglob("*"))


def test_an_upload_that_does_not_fit_is_refused_and_leaves_nothing_behind(limited: Tenant) -> None:
    upload(limited, b"123456")
    with pytest.raises(QuotaForbids) as told:
        upload(limited, b"12345")
    limit = told.value.extra["limit"]
    assert (limit["name"], limit["used"], limit["allowed"]) == ("artifact_bytes", 6, 10)
    assert (Artifact.objects.count(), files_on_disk()) == (1, 1)
    upload(limited, b"1234")


def test_the_same_bytes_twice_cost_nothing(limited: Tenant) -> None:
    first = upload(limited, b"1234567890")
    assert upload(limited, b"1234567890").id == first.id


def test_what_a_model_made_is_stored_whatever_the_limit(limited: Tenant, tmp_path: Path) -> None:
    made = tmp_path / "output"
    made.write_bytes(b"x" * 20)
    store_file(tenant_id=limited.id, path=made, name="output", media_type="text/plain")
    assert stored_bytes(limited.id) == 20
    with pytest.raises(QuotaForbids):
        upload(limited, b"1")


def test_another_tenants_files_do_not_count(limited: Tenant, other_tenant: Tenant) -> None:
    upload(other_tenant, b"1234567890")
    upload(limited, b"1234567890")


@pytest.mark.django_db(transaction=True)
def test_uploads_at_the_same_moment_keep_the_limit(limited: Tenant) -> None:
    contents = [b"%04d" % n for n in range(8)]
    told = at_once([partial(upload, limited, content) for content in contents])
    refused = [each for each in told if isinstance(each, QuotaForbids)]
    assert (len(refused), stored_bytes(limited.id), files_on_disk()) == (6, 8, 2), told
