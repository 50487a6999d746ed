from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from scaler.brain.mig import PROFILES, Table, layout, most, smallest, table_of


@pytest.mark.parametrize(
    ("table", "counts"),
    [
        ("80", [7, 4, 3, 2, 1, 1]),
        ("a100-40", [7, 4, 3, 2, 1, 1]),
        ("h200-141", [7, 4, 3, 2, 1, 1]),
        ("a30-24", [4, 2, 1]),
    ],
)
def test_as_many_of_each_fit_as_the_guide_says(table: Table, counts: list[int]) -> None:
    assert [most(table, profile.name) for profile in PROFILES[table]] == counts


def test_no_two_pieces_overlap() -> None:
    placed = layout("80", ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"])
    assert placed is not None
    sizes = {profile.name: profile.size for profile in PROFILES["80"]}
    cells = [start + offset for name, start in placed for offset in range(sizes[name])]
    assert len(cells) == len(set(cells)) == 8


def test_pieces_that_need_more_than_the_card_do_not_fit() -> None:
    assert layout("80", ["4g.40gb", "4g.40gb"]) is None
    assert layout("80", ["7g.80gb", "1g.10gb"]) is None
    assert layout("80", ["1g.10gb"] * 8) is None


def test_every_way_to_cut_a_card_is_known() -> None:
    names = [profile.name for profile in PROFILES["80"]]
    ways = [
        cut
        for count in range(8)
        for cut in combinations_with_replacement(names, count)
        if layout("80", cut) is not None
    ]
    assert len(ways) == 78


def test_the_smallest_piece_that_suffices_is_taken() -> None:
    piece = smallest("80", memory_gb=18, compute=0.1)
    assert piece is not None
    assert piece.name == "1g.20gb"
    assert smallest("80", memory_gb=90, compute=0.1) is None
    assert smallest(None, memory_gb=1, compute=0.1) is None


@pytest.mark.parametrize(
    ("memory_gb", "table"),
    [(23.9, "a30-24"), (39.6, "a100-40"), (79.6, "80"), (140.4, "h200-141"), (47.5, None)],
)
def test_a_cards_size_tells_its_table(memory_gb: float, table: str | None) -> None:
    assert table_of(memory_gb) == table
