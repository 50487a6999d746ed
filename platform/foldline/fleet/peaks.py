"""What workers of a revision were seen to hold of their cards, and how long they took to load."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.db.models import F, Max, Window
from django.db.models.functions import RowNumber

from foldline.fleet.models import Worker

STARTS = 30
"""The newest workers that are looked at: a model that has changed its needs is seen anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Peak:
    """Bytes; 0 is not measured. `card_bytes` are a whole card's, `share` is the part of it that
    the newest measured worker holds. `worst_load_s`: the longest load in seconds; 0 while none
    is known, and when the last worker that ended had not loaded."""

    gpu_bytes: int = 0
    card_bytes: int = 0
    share: float = 1.0
    worst_load_s: float = 0.0


def peaks_of(revision_ids: Collection[UUID]) -> Mapping[UUID, Peak]:
    """Of each revision, over its newest workers, present and gone."""
    newest = defaultdict(list)
    number = Window(RowNumber(), partition_by="revision_id", order_by=F("started_at").desc())
    workers = Worker.objects.filter(revision_id__in=list(revision_ids)).annotate(number=number)
    for worker in workers.filter(number__lte=STARTS).order_by("number"):
        newest[worker.revision_id].append(worker)
    return _with_cards({each: _peak(newest[each]) for each in revision_ids})


def _peak(workers: Sequence[Worker]) -> Peak:
    """Of one revision; the newest worker comes first."""
    measured = [each for each in workers if each.peak_gpu_bytes]
    whole = [each.card_bytes for each in workers if each.share >= 1 and each.card_bytes]
    return Peak(
        gpu_bytes=max((each.peak_gpu_bytes for each in measured), default=0),
        # Who has a part of a card may be shown that part as if it were all.
        card_bytes=whole[0] if whole and measured else 0,
        share=measured[0].share if measured else 1.0,
        worst_load_s=_worst_load_s(workers),
    )


def _worst_load_s(workers: Sequence[Worker]) -> float:
    ended = [each for each in workers if each.state == Worker.State.GONE]
    if ended and "total" not in ended[0].load_seconds:
        return 0.0
    return max((float(each.load_seconds.get("total", 0.0)) for each in workers), default=0.0)


def _with_cards(peaks: Mapping[UUID, Peak]) -> Mapping[UUID, Peak]:
    """With the card from before, where the newest workers all have parts of one."""
    lacking = [key for key, peak in peaks.items() if peak.gpu_bytes and not peak.card_bytes]
    if not lacking:
        return peaks
    whole = Worker.objects.filter(revision_id__in=lacking, share__gte=1)
    cards = dict(whole.order_by().values_list("revision_id").annotate(Max("card_bytes")))
    return {
        key: replace(peak, card_bytes=peak.card_bytes or cards.get(key, 0))
        for key, peak in peaks.items()
    }
