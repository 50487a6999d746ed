"""What others may know of artifacts. Every question names the tenant that asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from django.db.models import Sum

from foldline.artifacts.models import Artifact
from foldline.errors import ArtifactNotFound


def artifact_of(*, tenant_id: UUID, artifact_id: UUID) -> Artifact:
    """The tenant's artifact. Raises ArtifactNotFound, also for another's."""
    artifact = Artifact.objects.filter(tenant_id=tenant_id, id=artifact_id).first()
    if artifact is None:
        raise ArtifactNotFound
    return artifact


def hashes_of(*, tenant_id: UUID, artifact_ids: Collection[UUID]) -> Mapping[UUID, str]:
    """The SHA-256 of those of the artifacts that exist and are the tenant's."""
    found = Artifact.objects.filter(tenant_id=tenant_id, id__in=artifact_ids)
    return dict(found.values_list("id", "sha256"))


def stored_bytes(tenant_id: UUID) -> int:
    """How much the tenant's artifacts take."""
    stored = Artifact.objects.filter(tenant_id=tenant_id).aggregate(bytes=Sum("size"))["bytes"]
    return int(stored or 0)
