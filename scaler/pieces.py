"""What a worker should get of a card, in words that are kept with the decision."""

from __future__ import annotations

from collections.abc import Mapping

from foldline.fleet.peaks import Peak
from scaler.brain.slices import CardType, Needs, choose

GIB = 1024**3


def piece_of(peak: Peak) -> Mapping[str, str | int]:
    """Kind, bytes, the rule that led there and perhaps a warning; empty while nobody measured.

    A worker that holds a whole card where a share would do is warned of: its card could
    serve others.
    """
    if not (peak.gpu_bytes and peak.card_bytes):
        return {}
    card = CardType(name="its card", memory_gb=round(peak.card_bytes / GIB, 1))
    piece = choose(Needs(peak_gb=round(peak.gpu_bytes / GIB, 1)), card=card)
    warning = piece.warning
    if piece.kind == "share" and peak.share >= 1:
        used = piece.memory_gb / card.memory_gb
        warning = (
            f"a model of {piece.memory_gb:g} GB holds a whole card of {card.memory_gb:g} GB"
            f" ({used:.0%}): a share would do"
        )
    told: dict[str, str | int] = {
        "kind": piece.kind,
        "bytes": round(piece.memory_gb * GIB),
        "rule": piece.rule,
    }
    return {**told, "warning": warning} if warning else told
