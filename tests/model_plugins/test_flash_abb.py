"""FlashABB on its real weights."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jsonschema_rs
import pytest

from model_plugins.manifest import read_manifest
from model_plugins.registry import BUILTIN_ROOT

pytestmark = pytest.mark.weights
MANIFEST = read_manifest(BUILTIN_ROOT / "flash_abb")
PAIR = MANIFEST.input_schema["examples"][0]


@pytest.fixture(scope="module")
def bench(bench_of: Callable[[str], Any]) -> Any:
    return bench_of("flash_abb")


@pytest.fixture(scope="module")
def folded(bench: Any) -> dict[str, Any]:
    outcome: dict[str, Any] = bench.run(PAIR, seed=5)
    assert outcome["error"] is None
    return outcome


def atoms(pdb: str) -> list[str]:
    return [line for line in pdb.splitlines() if line.startswith("ATOM")]


def test_the_result_fits_its_schema(folded: dict[str, Any]) -> None:
    jsonschema_rs.validate(MANIFEST.output_schema, folded["result"])
    assert folded["warnings"] == []


def test_both_chains_are_folded_in_full(folded: dict[str, Any]) -> None:
    alphas = [line for line in atoms(folded["files"]["structure.pdb"]) if line[12:16] == " CA "]
    for chain, sequence in (("H", PAIR["heavy"]), ("L", PAIR["light"])):
        numbers = [int(line[22:26]) for line in alphas if line[21] == chain]
        assert numbers == list(range(1, len(sequence) + 1))


def test_neighbours_along_a_chain_are_bonded(folded: dict[str, Any]) -> None:
    """CA atoms that follow each other in a protein are 3.8 Å apart (2.9 when cis)."""
    alphas = [line for line in atoms(folded["files"]["structure.pdb"]) if line[12:16] == " CA "]
    heavy = [
        tuple(float(line[at : at + 8]) for at in (30, 38, 46)) for line in alphas if line[21] == "H"
    ]
    for one, other in pairwise(heavy):
        distance = sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5
        assert 2.7 < distance < 4.1


def test_the_b_factors_are_the_confidence_that_is_reported(folded: dict[str, Any]) -> None:
    alphas = [line for line in atoms(folded["files"]["structure.pdb"]) if line[12:16] == " CA "]
    confidence = [float(line[60:66]) for line in alphas]
    mean = sum(confidence) / len(confidence)
    assert mean == pytest.approx(folded["result"]["mean_plddt"], abs=0.06)
    assert mean > 85


def test_the_same_pair_gives_the_same_structure_whatever_the_seed(
    bench: Any, folded: dict[str, Any]
) -> None:
    again = bench.run(PAIR, seed=6)
    assert again["files"] == folded["files"]
    assert (folded["result"]["seed"], again["result"]["seed"]) == (5, 6)


def test_tidied_sequences_give_the_same_structure(bench: Any, folded: dict[str, Any]) -> None:
    again = bench.run({"heavy": f" {PAIR['heavy'].lower()}\n", "light": PAIR["light"] + "*"})
    assert again["files"] == folded["files"]
    assert again["warnings"] == ["uppercased", "stop_stripped"]


def test_a_doubtful_structure_is_said_to_be_doubtful(bench: Any) -> None:
    outcome = bench.run({"heavy": "".join(sorted(PAIR["heavy"])), "light": "GS" * 50})
    assert outcome["warnings"] == ["low_confidence"]


def test_bad_residues_are_the_callers_error(bench: Any) -> None:
    outcome = bench.run({**PAIR, "light": "X" + PAIR["light"]})
    assert outcome["error"]["code"] == "invalid_input"
    assert outcome["error"]["details"]["code"] == "ambiguous_residue"
    assert outcome["error"]["details"]["pointer"] == "/light"
