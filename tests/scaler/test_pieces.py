from __future__ import annotations

import pytest

from foldline.catalog.models import Revision
from foldline.fleet.peaks import Peak
from foldline.fleet.policies import latest_decisions
from scaler.loop import Loop
from scaler.pieces import GIB, piece_of
from scaler.sources import Sources
from tests.scaler.conftest import MakeRow, Notebook


def test_nothing_is_said_of_what_nobody_measured() -> None:
    assert piece_of(Peak()) == {}
    assert piece_of(Peak(gpu_bytes=GIB)) == {}


def test_the_quota_is_the_peak_and_fifteen_percent() -> None:
    piece = piece_of(Peak(gpu_bytes=20 * GIB, card_bytes=80 * GIB, share=0.5))
    assert piece == {
        "kind": "share",
        "bytes": 23 * GIB,
        "rule": "its peak of 20 GB leaves room for others on its card",
    }


def test_a_small_model_on_a_whole_card_is_flagged() -> None:
    piece = piece_of(Peak(gpu_bytes=round(6.9 * GIB), card_bytes=80 * GIB))
    assert piece["warning"] == (
        "a model of 8 GB holds a whole card of 80 GB (10%): a share would do"
    )


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_model_near_the_cards_size_gets_all_of_it_without_a_flag(share: float) -> None:
    piece = piece_of(Peak(gpu_bytes=60 * GIB, card_bytes=80 * GIB, share=share))
    assert (piece["kind"], piece["bytes"]) == ("card", 80 * GIB)
    assert piece["rule"] == "peak and margin (69 GB) are near the card's 80 GB"
    assert "warning" not in piece


@pytest.mark.django_db
def test_the_suggestion_is_kept_with_the_decision(
    target: Notebook, make_row: MakeRow, toy: Revision
) -> None:
    loop = Loop(target, Sources(target), leads=lambda: True)
    loop.round()
    assert latest_decisions([toy.pk])[toy.pk].piece == {}
    make_row(1, peak_gpu_bytes=7 * GIB, card_bytes=80 * GIB, share=0.5)
    make_row(2)
    target.hire(1)
    loop.round()
    assert latest_decisions([toy.pk])[toy.pk].piece["bytes"] == 9 * GIB
