"""MIG: the pieces a card can be cut into, where they may begin, and what fits together.

The tables follow NVIDIA's MIG guide. A card may be cut anew only while nothing runs on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Table = Literal["a30-24", "a100-40", "80", "h200-141"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """`slices` of the card's compute, `size` of its memory slices, from one of `starts`."""

    name: str
    memory_gb: float
    slices: int
    size: int
    starts: tuple[int, ...]
    of: int

    @property
    def compute(self) -> float:
        return self.slices / self.of


def _seven(*names_gb: tuple[str, float]) -> tuple[Profile, ...]:
    shapes = (
        (1, 1, (0, 1, 2, 3, 4, 5, 6)),
        (1, 2, (0, 2, 4, 6)),
        (2, 2, (0, 2, 4)),
        (3, 4, (0, 4)),
        (4, 4, (0,)),
        (7, 8, (0,)),
    )
    return tuple(
        Profile(name=name, memory_gb=gb, slices=slices, size=size, starts=starts, of=7)
        for (name, gb), (slices, size, starts) in zip(names_gb, shapes, strict=True)
    )


PROFILES: dict[Table, tuple[Profile, ...]] = {
    "a30-24": (
        Profile(name="1g.6gb", memory_gb=6, slices=1, size=1, starts=(0, 1, 2, 3), of=4),
        Profile(name="2g.12gb", memory_gb=12, slices=2, size=2, starts=(0, 2), of=4),
        Profile(name="4g.24gb", memory_gb=24, slices=4, size=4, starts=(0,), of=4),
    ),
    "a100-40": _seven(
        ("1g.5gb", 5), ("1g.10gb", 10), ("2g.10gb", 10), ("3g.20gb", 20), ("4g.20gb", 20),
        ("7g.40gb", 40),
    ),
    "80": _seven(
        ("1g.10gb", 10), ("1g.20gb", 20), ("2g.20gb", 20), ("3g.40gb", 40), ("4g.40gb", 40),
        ("7g.80gb", 80),
    ),
    "h200-141": _seven(
        ("1g.18gb", 18), ("1g.35gb", 35), ("2g.35gb", 35), ("3g.71gb", 71), ("4g.71gb", 71),
        ("7g.141gb", 141),
    ),
}  # fmt: skip


SIZES_GB: dict[Table, tuple[float, float]] = {
    "a30-24": (22, 25),
    "a100-40": (38, 41),
    "80": (78, 81),
    "h200-141": (138, 142),
}
"""What drivers tell of such cards, in GiB, with what they keep for themselves."""


def table_of(memory_gb: float) -> Table | None:
    """The table of a card of this size that can be cut; None when there is none of its kind."""
    return next(
        (name for name, (least, most) in SIZES_GB.items() if least <= memory_gb <= most), None
    )


def smallest(table: Table | None, *, memory_gb: float, compute: float) -> Profile | None:
    """The least profile with this memory and compute (0 to 1 of the card), or None."""
    able = (
        profile
        for profile in (PROFILES[table] if table else ())
        if profile.memory_gb >= memory_gb and profile.compute + 1e-9 >= compute
    )
    return min(able, key=lambda profile: (profile.size, profile.slices), default=None)


def layout(table: Table, names: Sequence[str]) -> tuple[tuple[str, int], ...] | None:
    """Where each of these profiles begins on one card, or None when they do not fit together."""
    known = {profile.name: profile for profile in PROFILES[table]}
    wanted = sorted((known[name] for name in names), key=lambda each: (-each.size, -each.slices))
    return _lay(wanted, taken=frozenset())


def _lay(wanted: Sequence[Profile], *, taken: frozenset[int]) -> tuple[tuple[str, int], ...] | None:
    if not wanted:
        return ()
    first, rest = wanted[0], wanted[1:]
    for start in first.starts:
        cells = frozenset(range(start, start + first.size))
        if cells & taken:
            continue
        others = _lay(rest, taken=taken | cells)
        if others is not None:
            return ((first.name, start), *others)
    return None


def most(table: Table, name: str) -> int:
    """How many of one profile a card holds."""
    count = 0
    while layout(table, [name] * (count + 1)) is not None:
        count += 1
    return count
