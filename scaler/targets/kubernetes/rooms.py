"""Which cards have room, when some of those who hold them do not say which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scaler.brain.placement import EPS


class Rooms:
    """Free parts of cards. Used cards are filled first, as the schedulers are told to."""

    def __init__(self, cards: Mapping[str, str]) -> None:
        """`cards`: of each card the node it is in."""
        self._node = dict(cards)
        self._free = dict.fromkeys(cards, 1.0)

    def hold(self, cards: Sequence[str], *, share: float) -> bool:
        """Someone holds a share of these cards. False when one of them is not there."""
        known = [card for card in cards if card in self._free]
        for card in known:
            self._free[card] -= share
        return len(known) == len(cards)

    def take(self, *, share: float, count: int = 1, node: str = "") -> tuple[str, ...] | None:
        """Room for a share of each of `count` cards of one node; None when there is none."""
        if not count:
            return ()
        best = min(self._fits(share, count, node), default=None)
        if best is None:
            return None
        self.hold(best[1], share=share)
        return best[1]

    def _fits(self, share: float, count: int, node: str) -> Iterable[tuple[float, tuple[str, ...]]]:
        for name in sorted({node} if node else set(self._node.values())):
            free = sorted(
                (left, card)
                for card, left in self._free.items()
                if self._node[card] == name and left >= share - EPS
            )
            if len(free) >= count:
                taken = free[:count]
                yield sum(left for left, _ in taken), tuple(card for _, card in taken)
