"""Weights that are on a node before a worker needs them: read, checked by hash, written down."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from foldline.clock import database_now
from foldline.fleet.models import NodeWeights
from foldline.fleet.packages import Pip, RuntimeTrouble
from foldline.fleet.runtimes import CONSTRAINTS, folder_of
from foldline.fleet.services import Assignment
from foldline.fleet.weights import check_weights
from model_plugins.manifest import ManifestError, read_manifest

TOLD_DAYS = 7
"""A node that nobody has read on for this long may be gone, and is not spoken of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ahead:
    """What was found on one node. `trouble` is "" where the weights are as reviewed."""

    size_bytes: int
    seconds: float
    trouble: str


def read_ahead(found: Assignment, *, node: str) -> Ahead:
    """Read all weights of a revision from this machine's disk, which also leaves them in its
    page cache, and keep what was found. A worker checks the same hashes before it loads."""
    began, size, trouble = time.monotonic(), 0, ""
    try:
        manifest = read_manifest(found.folder)
        if manifest.digest != found.digest:
            raise RuntimeTrouble(f"{found.folder} has changed since r{found.number} was reviewed.")
        if manifest.weights:
            # The runtime's own interpreter says where its packages are.
            pip = Pip(folder_of(found.runtime), constraints=CONSTRAINTS, say=lambda _text: None)
            size = check_weights([manifest], site_packages=pip.site_packages())
    except (RuntimeTrouble, ManifestError, OSError) as error:
        trouble = str(error)
    ahead = Ahead(size_bytes=size, seconds=time.monotonic() - began, trouble=trouble)
    _keep(ahead, revision_id=found.revision_id, node=node)
    return ahead


def _keep(ahead: Ahead, *, revision_id: UUID, node: str) -> None:
    told = {name: getattr(ahead, name) for name in Ahead.__dataclass_fields__}
    NodeWeights.objects.update_or_create(
        revision_id=revision_id, node=node, defaults={**told, "at": database_now()}
    )


def weights_of(revision_id: UUID) -> Sequence[NodeWeights]:
    """What was found on each node lately, by the node's name."""
    since = database_now() - timedelta(days=TOLD_DAYS)
    return list(NodeWeights.objects.filter(revision_id=revision_id, at__gte=since).order_by("node"))


def wrong_weights(revision_ids: Collection[UUID]) -> Mapping[UUID, Sequence[str]]:
    """Sentences about nodes whose weights are not as reviewed; nothing of all others."""
    since = database_now() - timedelta(days=TOLD_DAYS)
    rows = NodeWeights.objects.filter(revision_id__in=list(revision_ids), at__gte=since)
    found: dict[UUID, list[str]] = {}
    for row in rows.exclude(trouble="").order_by("node"):
        words = f"its weights cannot be used on the node {row.node}: {row.trouble}"
        found.setdefault(row.revision_id, []).append(words)
    return found
