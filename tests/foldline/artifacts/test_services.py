from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

from foldline.artifacts import storage
from foldline.artifacts.models import Artifact
from foldline.artifacts.selectors import artifact_of, hashes_of
from foldline.artifacts.services import (
    Stored,
    is_name,
    materialise,
    reference,
    store_file,
    store_upload,
)
from foldline.errors import ArtifactNotFound, BodyTooLarge, InvalidRequest, Storage
from foldline.tenants.models import Tenant

pytestmark = pytest.mark.django_db
BODY = b">heavy\nEVQLV\n"


def upload(tenant: Tenant, body: bytes = BODY, *, name: str = "heavy.fasta") -> Stored:
    return store_upload(tenant_id=tenant.pk, chunks=[body[:3], body[3:]], name=name)


def files_on_disk() -> list[Path]:
    return [path for path in Path(django_settings.ARTIFACTS_DIR).rglob("*") if path.is_file()]


def test_a_file_is_kept_under_its_hash(tenant: Tenant) -> None:
    stored = upload(tenant)
    assert stored.created
    assert stored.sha256 == hashlib.sha256(BODY).hexdigest()
    assert (stored.size, stored.media_type) == (len(BODY), "text/x-fasta")
    assert [path.name for path in files_on_disk()] == [stored.sha256]
    assert storage.path_of(tenant.pk, stored.sha256).read_bytes() == BODY


def test_the_same_bytes_twice_are_one_artifact(tenant: Tenant) -> None:
    first, again = upload(tenant), upload(tenant, name="other.fasta")
    assert (again.id, again.created) == (first.id, False)
    assert len(files_on_disk()) == 1


def test_two_tenants_with_the_same_bytes_know_nothing_of_each_other(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    mine, theirs = upload(tenant), upload(other_tenant)
    assert theirs.created
    assert mine.id != theirs.id
    assert len(files_on_disk()) == 2
    with pytest.raises(ArtifactNotFound):
        artifact_of(tenant_id=tenant.pk, artifact_id=theirs.id)
    hashes = hashes_of(tenant_id=tenant.pk, artifact_ids=[mine.id, theirs.id])
    assert hashes == {mine.id: mine.sha256}


def test_an_upload_that_is_too_large_leaves_nothing_behind(
    tenant: Tenant, settings: Settings
) -> None:
    settings.MAX_UPLOAD_BYTES = 10
    with pytest.raises(BodyTooLarge):
        upload(tenant)
    assert files_on_disk() == []
    assert not Artifact.objects.exists()


@pytest.mark.parametrize(
    "name", ["", "../etc/passwd", "/abs", "a\\b", "a\x00b", "..", "a\nb", "x" * 129]
)
def test_a_name_that_could_be_a_path_is_refused(tenant: Tenant, name: str) -> None:
    with pytest.raises(InvalidRequest):
        upload(tenant, name=name)
    assert files_on_disk() == []


def test_a_name_may_be_in_any_language() -> None:
    assert is_name("Struktur (1) Antikörper.pdb")


def test_a_copy_for_a_model_is_read_only_and_no_link_into_the_store(
    tenant: Tenant, tmp_path: Path
) -> None:
    stored = upload(tenant)
    target = tmp_path / "input"
    materialise(tenant_id=tenant.pk, sha256=stored.sha256, target=target)
    assert target.read_bytes() == BODY
    assert target.stat().st_mode & 0o222 == 0
    assert target.stat().st_nlink == 1


def test_damaged_bytes_are_noticed(tenant: Tenant, tmp_path: Path) -> None:
    stored = upload(tenant)
    storage.path_of(tenant.pk, stored.sha256).write_bytes(b"other")
    with pytest.raises(Storage, match="damaged"):
        materialise(tenant_id=tenant.pk, sha256=stored.sha256, target=tmp_path / "input")


def test_missing_bytes_are_a_storage_error_and_come_back_with_the_next_upload(
    tenant: Tenant,
) -> None:
    stored = upload(tenant)
    storage.path_of(tenant.pk, stored.sha256).unlink()
    with pytest.raises(Storage):
        storage.open_bytes(tenant.pk, stored.sha256)
    assert upload(tenant).id == stored.id
    storage.open_bytes(tenant.pk, stored.sha256).close()


def test_a_models_file_is_kept_with_its_own_media_type(tenant: Tenant, tmp_path: Path) -> None:
    path = tmp_path / "model.pdb"
    path.write_bytes(b"ATOM")
    stored = store_file(
        tenant_id=tenant.pk, path=path, name="model.pdb", media_type="chemical/x-pdb"
    )
    assert reference(stored, name="best.pdb") == {
        "artifact": str(stored.id),
        "name": "best.pdb",
        "media_type": "chemical/x-pdb",
        "size": 4,
        "sha256": stored.sha256,
    }


def test_a_models_odd_name_and_media_type_are_replaced(tenant: Tenant, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"words")
    stored = store_file(tenant_id=tenant.pk, path=path, name="../x", media_type="text/html\r\nX: y")
    assert (stored.name, stored.media_type) == ("output", "text/plain")


def test_a_link_that_a_model_leaves_is_not_followed(tenant: Tenant, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    link = tmp_path / "output"
    link.symlink_to(tmp_path / "secret")
    with pytest.raises(Storage):
        store_file(tenant_id=tenant.pk, path=link, name="output", media_type="text/plain")


def test_a_pipe_that_a_model_leaves_is_no_file(tenant: Tenant, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Storage, match="plain file"):
        store_file(tenant_id=tenant.pk, path=tmp_path / "pipe", name="p", media_type="text/plain")


def test_a_store_that_cannot_be_written_is_a_storage_error(
    tenant: Tenant, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    settings.ARTIFACTS_DIR = tmp_path / "file"
    with pytest.raises(Storage):
        upload(tenant)
