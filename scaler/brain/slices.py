"""A share of a card or the whole card: by rules on what was measured, with the rule in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scaler.brain import mig

MARGIN = 0.15
NEAR_CARD = 0.60


@dataclass(frozen=True, kw_only=True, slots=True)
class CardType:
    """One kind of card. `mig` names its table of profiles when it can be cut in hardware."""

    name: str
    memory_gb: float
    mig: mig.Table | None = None
    most_sharers: int = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """One model: its measured memory peak, and what an admin said about it."""

    peak_gb: float
    compute: float = 1.0
    """The part of a card's compute it can use, 0 to 1."""
    latency_strict: bool = False
    several_cards: bool = False
    rare_and_expensive: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """What a worker gets, and the rule that led there."""

    kind: Literal["share", "card", "mig"]
    memory_gb: float
    compute: float
    rule: str
    profile: str = ""
    warning: str = ""


def quota_gb(peak_gb: float) -> int:
    """Whole gigabytes to ask for: the measured peak and 15 %."""
    return math.ceil(peak_gb * (1 + MARGIN) - 1e-9)


def choose(needs: Needs, *, card: CardType) -> Slice:
    """The slice for a model on this card."""
    quota = quota_gb(needs.peak_gb)
    rule = _whole_because(needs, quota=quota, card=card)
    if rule:
        return _whole(card, quota=quota, rule=rule)
    if needs.latency_strict:
        profile = mig.smallest(card.mig, memory_gb=quota, compute=needs.compute)
        if profile is None:
            rule = "latency must be steady, and this card has no MIG profile for it"
            return _whole(card, quota=quota, rule=rule)
        return Slice(
            kind="mig",
            memory_gb=profile.memory_gb,
            compute=profile.compute,
            profile=profile.name,
            rule="latency must be steady: a slice that hardware keeps apart",
        )
    return Slice(
        kind="share",
        memory_gb=quota,
        compute=needs.compute,
        rule=f"its peak of {needs.peak_gb:g} GB leaves room for others on {card.name}",
    )


def _whole_because(needs: Needs, *, quota: int, card: CardType) -> str:
    if needs.several_cards:
        return "it needs several cards at once"
    if needs.rare_and_expensive:
        return "its jobs are rare and expensive: nobody may disturb them"
    if quota >= NEAR_CARD * card.memory_gb:
        return f"peak and margin ({quota} GB) are near the card's {card.memory_gb:g} GB"
    return ""


def _whole(card: CardType, *, quota: int, rule: str) -> Slice:
    used = quota / card.memory_gb
    warning = ""
    if used < NEAR_CARD:
        warning = f"a model of {quota} GB holds a whole card of {card.memory_gb:g} GB ({used:.0%})"
    return Slice(kind="card", memory_gb=card.memory_gb, compute=1.0, rule=rule, warning=warning)


def share_of(piece: Slice, *, card: CardType) -> float:
    """The part of the card it takes: the larger of memory and compute."""
    return min(1.0, max(piece.memory_gb / card.memory_gb, piece.compute))


def per_card(piece: Slice, *, card: CardType) -> int:
    """How many such workers one card holds."""
    if piece.kind == "card":
        return 1
    if piece.kind == "mig" and card.mig is not None:
        return mig.most(card.mig, piece.profile)
    return min(card.most_sharers, math.floor(1 / share_of(piece, card=card) + 1e-9))
