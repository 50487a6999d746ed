from __future__ import annotations

from scaler.brain.slices import CardType, Needs, choose, per_card, quota_gb, share_of

A100 = CardType(name="A100-80G", memory_gb=80, mig="80")
L40S = CardType(name="L40S-48G", memory_gb=48)


def test_the_quota_is_the_measured_peak_and_fifteen_percent() -> None:
    assert quota_gb(20.8) == 24
    assert quota_gb(6.9) == 8
    assert quota_gb(20) == 23


def test_folding_models_share_a_card_by_two() -> None:
    piece = choose(Needs(peak_gb=20.8, compute=0.5), card=A100)
    assert (piece.kind, piece.memory_gb, per_card(piece, card=A100)) == ("share", 24, 2)
    assert share_of(piece, card=A100) == 0.5


def test_embeddings_share_a_small_card_by_four() -> None:
    piece = choose(Needs(peak_gb=6.9, compute=0.25), card=L40S)
    assert (piece.kind, piece.memory_gb, per_card(piece, card=L40S)) == ("share", 8, 4)


def test_a_model_near_the_cards_memory_gets_the_whole_card() -> None:
    piece = choose(Needs(peak_gb=60), card=A100)
    assert (piece.kind, per_card(piece, card=A100), piece.warning) == ("card", 1, "")
    assert piece.rule == "peak and margin (69 GB) are near the card's 80 GB"


def test_rare_and_expensive_jobs_get_the_whole_card() -> None:
    piece = choose(Needs(peak_gb=24, rare_and_expensive=True), card=A100)
    assert piece.kind == "card"
    assert piece.rule == "its jobs are rare and expensive: nobody may disturb them"


def test_a_small_model_that_holds_a_whole_card_is_flagged() -> None:
    piece = choose(Needs(peak_gb=6.9, rare_and_expensive=True), card=A100)
    assert piece.warning == "a model of 8 GB holds a whole card of 80 GB (10%)"


def test_several_cards_are_never_shared() -> None:
    assert choose(Needs(peak_gb=5, several_cards=True), card=A100).kind == "card"


def test_steady_latency_gets_a_slice_of_hardware_or_the_whole_card() -> None:
    needs = Needs(peak_gb=16, compute=0.25, latency_strict=True)
    piece = choose(needs, card=A100)
    assert (piece.kind, piece.profile, per_card(piece, card=A100)) == ("mig", "2g.20gb", 3)
    assert choose(needs, card=L40S).kind == "card"
