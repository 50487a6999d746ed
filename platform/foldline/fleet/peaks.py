"""What workers of a revision were seen to hold of their cards."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from foldline.fleet.models import Worker

STARTS = 30
"""The newest workers that are looked at: a model that has changed its needs is seen anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Peak:
    """Bytes; 0 is not measured. `share` is the part of a card that its newest worker holds."""

    gpu_bytes: int = 0
    card_bytes: int = 0
    share: float = 1.0


def peaks_of(revision_ids: Collection[UUID]) -> Mapping[UUID, Peak]:
    """Of each revision, over its newest workers, present and gone."""
    return {revision_id: _peak(revision_id) for revision_id in revision_ids}


def _peak(revision_id: UUID) -> Peak:
    workers = Worker.objects.filter(revision_id=revision_id).order_by("-started_at")
    newest = workers.values_list("peak_gpu_bytes", "card_bytes", "share")[:STARTS]
    measured = [row for row in newest if row[0]]
    if not measured:
        return Peak()
    return Peak(
        gpu_bytes=max(row[0] for row in measured),
        card_bytes=measured[0][1],
        share=measured[0][2],
    )
