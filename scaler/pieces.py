"""What a worker gets of a card: by its measured peak, and by what an admin said of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from foldline.fleet.peaks import Peak
from foldline.fleet.policies import Wish
from scaler.brain import mig
from scaler.brain.slices import CardType, Needs, Slice, choose, quota_gb, share_of
from scaler.targets.base import Flavour, GpuRequest

GIB = 1024**3
START_MARGIN = 2.0
"""A start on a node with nothing in its caches may take twice the longest that was seen."""
LEAST_START_S = 60


@dataclass(frozen=True, kw_only=True)
class Piece:
    """`told` is kept with the decision: kind, bytes, the rule that led there, and perhaps a
    warning; empty while nobody measured. `request` is what the next worker asks for."""

    told: Mapping[str, str | int] = field(default_factory=dict)
    request: GpuRequest = field(default_factory=GpuRequest)


def piece_of(peak: Peak, *, wish: Wish, flavour: Flavour) -> Piece:
    """A whole card until a peak is measured and an admin lets the model share.

    A worker that holds a whole card where a part would do is warned of: its card could serve
    others.
    """
    if not (peak.gpu_bytes and peak.card_bytes):
        return Piece()
    card = _card(peak, flavour=flavour)
    quota = quota_gb(peak.gpu_bytes / GIB)
    needs = Needs(
        peak_gb=round(peak.gpu_bytes / GIB, 1),
        # Nobody measures compute: a share gets as much of it as of the memory.
        compute=quota / card.memory_gb,
        latency_strict=wish.latency_strict,
        several_cards=wish.several_cards,
        rare_and_expensive=wish.rare_and_expensive,
    )
    piece = choose(needs, card=card)
    request = _request(piece, card=card, flavour=flavour) if wish.sharing else GpuRequest()
    told: dict[str, str | int] = {
        "kind": piece.kind,
        "bytes": round(piece.memory_gb * GIB),
        "rule": piece.rule,
    }
    warning = _warning(piece, peak=peak, card=card, wish=wish, request=request)
    return Piece(told={**told, "warning": warning} if warning else told, request=request)


def start_s(peak: Peak, *, load_timeout_s: int) -> int:
    """How long a start may take: the longest that was seen and a margin; 0 while none was."""
    if not peak.worst_load_s:
        return 0
    return min(load_timeout_s, max(LEAST_START_S, math.ceil(peak.worst_load_s * START_MARGIN)))


def _card(peak: Peak, *, flavour: Flavour) -> CardType:
    memory_gb = round(peak.card_bytes / GIB, 1)
    table = mig.table_of(memory_gb) if flavour == "mig" else None
    return CardType(name="its card", memory_gb=memory_gb, mig=table)


def _request(piece: Slice, *, card: CardType, flavour: Flavour) -> GpuRequest:
    """The piece in the words of this flavour; the whole card where it has none."""
    if piece.kind == "card" or flavour == "whole":
        return GpuRequest()
    if flavour == "mig":
        return _slice(piece, card=card)
    share = _hundredths(max(share_of(piece, card=card), 1 / card.most_sharers))
    return GpuRequest(
        share=share, memory_mib=round(piece.memory_gb * 1024), cores_pct=round(share * 100)
    )


def _slice(piece: Slice, *, card: CardType) -> GpuRequest:
    profile = mig.smallest(card.mig, memory_gb=piece.memory_gb, compute=piece.compute)
    if profile is None or profile.slices == profile.of:
        return GpuRequest()
    share = max(profile.memory_gb / card.memory_gb, profile.compute)
    return GpuRequest(share=min(1.0, _hundredths(share)), mig_profile=profile.name)


def _hundredths(share: float) -> float:
    """Rounded up: shares that add up to a card must fit on it."""
    return min(1.0, math.ceil(share * 100 - 1e-9) / 100)


def _warning(piece: Slice, *, peak: Peak, card: CardType, wish: Wish, request: GpuRequest) -> str:
    if piece.kind == "card":
        return piece.warning
    if wish.sharing and request.whole:
        return "it may share its card, and there is no part of a card to be had here"
    if peak.share < 1:
        return ""
    used = piece.memory_gb / card.memory_gb
    return (
        f"a model of {piece.memory_gb:g} GB holds a whole card of {card.memory_gb:g} GB"
        f" ({used:.0%}): a share would do"
    )
