from __future__ import annotations

from typing import Any

import pytest

from foldline.catalog.models import Revision
from foldline.fleet.peaks import Peak
from foldline.fleet.policies import Wish, latest_decisions
from scaler.loop import Loop
from scaler.pieces import GIB, piece_of, start_s
from scaler.sources import Sources
from scaler.targets.base import Flavour, GpuRequest
from tests.scaler.conftest import MakeRow, Notebook

SHARING = Wish(sharing=True)


def peak(held_gb: float, *, card_gb: float = 80, share: float = 1.0) -> Peak:
    return Peak(gpu_bytes=round(held_gb * GIB), card_bytes=round(card_gb * GIB), share=share)


def told(peak: Peak, wish: Wish = SHARING, *, flavour: Flavour = "hami") -> Any:
    return piece_of(peak, wish=wish, flavour=flavour).told


def request(peak: Peak, wish: Wish = SHARING, *, flavour: Flavour = "hami") -> GpuRequest:
    return piece_of(peak, wish=wish, flavour=flavour).request


@pytest.mark.parametrize("unknown", [Peak(), Peak(gpu_bytes=GIB), Peak(card_bytes=80 * GIB)])
def test_until_a_peak_is_measured_it_is_a_whole_card_and_nothing_is_said(unknown: Peak) -> None:
    assert told(unknown) == {}
    assert request(unknown) == GpuRequest()


def test_the_quota_is_the_peak_and_fifteen_percent() -> None:
    assert told(peak(20, share=0.5)) == {
        "kind": "share",
        "bytes": 23 * GIB,
        "rule": "its peak of 20 GB leaves room for others on its card",
    }


def test_a_small_model_on_a_whole_card_is_flagged() -> None:
    assert told(peak(6.9), Wish())["warning"] == (
        "a model of 8 GB holds a whole card of 80 GB (10%): a share would do"
    )


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_model_near_the_cards_size_gets_all_of_it_without_a_flag(share: float) -> None:
    piece = told(peak(60, share=share))
    assert (piece["kind"], piece["bytes"]) == ("card", 80 * GIB)
    assert piece["rule"] == "peak and margin (69 GB) are near the card's 80 GB"
    assert "warning" not in piece
    assert request(peak(60, share=share)) == GpuRequest()


def test_nobody_shares_whom_no_admin_lets() -> None:
    assert request(peak(20), Wish()) == GpuRequest()


def test_a_share_is_bounded_in_memory_and_gets_as_much_of_the_compute() -> None:
    assert request(peak(20)) == GpuRequest(share=0.29, memory_mib=23 * 1024, cores_pct=29)


def test_a_tiny_model_counts_as_a_tenth_of_a_card() -> None:
    """No more than ten share one, whatever their memory."""
    assert request(peak(0.5)) == GpuRequest(share=0.1, memory_mib=1024, cores_pct=10)


@pytest.mark.parametrize(
    "wish",
    [
        Wish(sharing=True, rare_and_expensive=True),
        Wish(sharing=True, several_cards=True),
        Wish(sharing=True, latency_strict=True),
    ],
)
def test_what_an_admin_says_of_a_model_keeps_the_card_for_it(wish: Wish) -> None:
    assert request(peak(8), wish) == GpuRequest()
    assert told(peak(8), wish)["kind"] == "card"


@pytest.mark.parametrize(
    ("card_gb", "held_gb", "profile", "share"),
    [
        (79.6, 8, "1g.10gb", 0.15),
        (79.6, 20, "3g.40gb", 0.51),
        (140.4, 8, "1g.18gb", 0.15),
        (39.6, 4, "1g.5gb", 0.15),
        (23.9, 4, "1g.6gb", 0.26),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_where_cards_are_cut_it_gets_the_least_slice_that_fits(
    card_gb: float, held_gb: float, profile: str, share: float, *, strict: bool
) -> None:
    wish = Wish(sharing=True, latency_strict=strict)
    piece = request(peak(held_gb, card_gb=card_gb), wish, flavour="mig")
    assert (piece.mig_profile, piece.share) == (profile, share)
    kind = told(peak(held_gb, card_gb=card_gb), wish, flavour="mig")["kind"]
    assert kind == ("mig" if strict else "share")


@pytest.mark.parametrize(("flavour", "card_gb"), [("whole", 80), ("mig", 47.5)])
def test_where_there_are_no_parts_it_is_a_whole_card_and_said(
    flavour: Flavour, card_gb: float
) -> None:
    small = peak(8, card_gb=card_gb)
    assert request(small, flavour=flavour) == GpuRequest()
    assert "no part of a card to be had here" in told(small, flavour=flavour)["warning"]


@pytest.mark.parametrize(
    ("worst_s", "allowed_s"),
    [
        (0.0, 0),  # nothing was measured: what the manifest allows
        (12.3, 60),  # quick ones are not cut to seconds
        (100.5, 201),
        (400.0, 600),  # never more than the manifest allows
    ],
)
def test_a_start_may_take_twice_the_worst_that_was_measured(worst_s: float, allowed_s: int) -> None:
    assert start_s(Peak(worst_load_s=worst_s), load_timeout_s=600) == allowed_s


@pytest.mark.django_db
def test_the_suggestion_is_kept_with_the_decision(
    target: Notebook, make_row: MakeRow, toy: Revision
) -> None:
    loop = Loop(target, Sources(target), leads=lambda: True)
    loop.round()
    assert latest_decisions([toy.pk])[toy.pk].piece == {}
    make_row(1, peak_gpu_bytes=7 * GIB, card_bytes=80 * GIB)
    make_row(2)
    target.hire(1)
    loop.round()
    assert latest_decisions([toy.pk])[toy.pk].piece["bytes"] == 9 * GIB
