"""The structure comparison, on structures whose scores are known."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, sin
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from model_plugins.manifest import read_manifest
from model_plugins.registry import BUILTIN_ROOT

pytestmark = pytest.mark.weights
MANIFEST = read_manifest(BUILTIN_ROOT / "structure_score")
MODEL = MANIFEST.folder / "examples" / "model.pdb"
REFERENCE = MANIFEST.folder / "examples" / "reference.pdb"
BACKBONE = BUILTIN_ROOT / "proteinmpnn" / "examples" / "structure.pdb"
Place = tuple[float, float, float]


@pytest.fixture(scope="module")
def bench(bench_of: Callable[[str], Any]) -> Any:
    return bench_of("structure_score")


def changed(
    source: Path,
    target: Path,
    *,
    place: Callable[[str, Place], Place] = lambda _, point: point,
    keep: Callable[[str], bool] = lambda _: True,
) -> str:
    """A copy of a PDB file with atoms moved or left out."""
    lines = []
    for line in source.read_text().splitlines():
        if line.startswith("ATOM") and keep(line):
            x, y, z = place(line, (float(line[30:38]), float(line[38:46]), float(line[46:54])))
            lines.append(f"{line[:30]}{x:8.3f}{y:8.3f}{z:8.3f}{line[54:]}")
    target.write_text("\n".join(lines) + "\n")
    return str(target)


def turned(point: Place, angle: float = 1.0) -> Place:
    x, y, z = point
    return (x * cos(angle) - y * sin(angle) + 5, x * sin(angle) + y * cos(angle), z - 20)


def compare(bench: Any, model: object, reference: object, **more: Any) -> dict[str, Any]:
    outcome = bench.run({"model": str(model), "reference": str(reference), **more}, seed=3)
    assert outcome["error"] is None, outcome["error"]
    result: dict[str, Any] = outcome["result"]
    jsonschema_rs.validate(MANIFEST.output_schema, result)
    return result


def test_a_refolded_design_is_close_to_its_original(bench: Any) -> None:
    result = compare(bench, MODEL, REFERENCE)
    assert 0.95 < result["tm_score"] < 1
    assert 0 < result["rmsd"] < 1
    assert result["aligned_residues"] == result["reference_residues"] == 233
    assert (result["pairing"], result["seed"]) == ("one_to_one", 3)
    assert 0.7 < result["sequence_identity"] < 0.9


def test_the_same_comparison_gives_the_same_answer(bench: Any) -> None:
    inputs = {"model": str(MODEL), "reference": str(REFERENCE)}
    assert bench.run(inputs, seed=1) == bench.run(inputs, seed=1)


def test_a_turned_copy_is_identical_and_is_laid_back(bench: Any, tmp_path: Path) -> None:
    copy = changed(REFERENCE, tmp_path / "turned.pdb", place=lambda _, point: turned(point))
    outcome = bench.run({"model": copy, "reference": str(REFERENCE)})
    assert outcome["result"]["tm_score"] == 1
    assert outcome["result"]["rmsd"] < 0.002
    laid = outcome["files"]["superimposed.pdb"].splitlines()[0]
    original = next(x for x in REFERENCE.read_text().splitlines() if x.startswith("ATOM"))
    for at in (30, 38, 46):
        assert float(laid[at : at + 8]) == pytest.approx(float(original[at : at + 8]), abs=0.01)


def test_a_swung_domain_costs_rmsd_but_half_the_tm_score_stays(bench: Any, tmp_path: Path) -> None:
    """The TM-score is the highest over all superpositions: one chain fits, the other does not."""
    swung = changed(
        REFERENCE,
        tmp_path / "swung.pdb",
        place=lambda line, point: turned(point, 2.0) if line[21] == "L" else point,
    )
    result = compare(bench, swung, REFERENCE)
    assert result["rmsd"] > 5
    assert 121 / 233 <= result["tm_score"] < 0.65


def test_chains_of_unequal_length_are_aligned_by_structure(bench: Any, tmp_path: Path) -> None:
    cut = changed(
        BACKBONE,
        tmp_path / "cut.pdb",
        place=lambda _, point: turned(point),
        keep=lambda line: not (line[21] == "H" and 40 <= int(line[22:26]) < 50),
    )
    result = compare(bench, cut, BACKBONE)
    assert result["pairing"] == "structural_alignment"
    assert result["model_residues"] == result["aligned_residues"] == 223
    assert result["sequence_identity"] == 1
    assert result["rmsd"] < 0.01
    assert result["tm_score"] == pytest.approx(223 / 233, abs=0.001)


def test_the_two_domains_of_an_antibody_have_the_same_fold(bench: Any) -> None:
    pair = [{"model": "H", "reference": "L"}]
    result = compare(bench, BACKBONE, BACKBONE, chains=pair)
    assert result["chains"] == pair
    assert 0.7 < result["tm_score"] < 0.95
    assert result["sequence_identity"] < 0.4


def test_chains_that_only_one_file_has_are_left_out_and_told(bench: Any, tmp_path: Path) -> None:
    half = changed(REFERENCE, tmp_path / "half.pdb", keep=lambda line: line[21] == "H")
    outcome = bench.run({"model": half, "reference": str(REFERENCE)})
    assert outcome["warnings"] == ["chains_left_out"]
    assert outcome["result"]["chains"] == [{"model": "H", "reference": "H"}]
    assert outcome["result"]["reference_residues"] == 121


def test_unlike_structures_are_scored_or_refused_but_never_crash(
    bench: Any, tmp_path: Path
) -> None:
    straight = changed(
        BACKBONE,
        tmp_path / "straight.pdb",
        place=lambda line, _: (float(line[22:26]) * 3.8, 0.0, 0.0),
        keep=lambda line: line[21] == "H" and int(line[22:26]) < 100,
    )
    outcome = bench.run({"model": straight, "reference": str(BACKBONE)})
    if outcome["error"]:
        assert outcome["error"]["details"]["code"] == "not_alignable"
    else:
        assert outcome["result"]["tm_score"] < 0.3


def test_an_unknown_chain_is_the_callers_error(bench: Any) -> None:
    chains = [{"model": "H", "reference": "Q"}]
    error = bench.run({"model": str(MODEL), "reference": str(REFERENCE), "chains": chains})["error"]
    assert error["code"] == "invalid_input"
    assert error["details"]["pointer"] == "/chains/0/reference"
    assert error["details"]["expected"] == ["H", "L"]
