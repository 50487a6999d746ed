"""ProteinMPNN on its real weights: what a design depends on, and what it does not."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from model_plugins.manifest import read_manifest
from model_plugins.registry import BUILTIN_ROOT

pytestmark = pytest.mark.weights
MANIFEST = read_manifest(BUILTIN_ROOT / "proteinmpnn")
STRUCTURE = MANIFEST.folder / "examples" / "structure.pdb"
INPUTS = {"structure": str(STRUCTURE), "chains_to_design": ["L"], "num_sequences": 2}


@pytest.fixture(scope="module")
def bench(bench_of: Callable[[str], Any]) -> Any:
    return bench_of("proteinmpnn")


@pytest.fixture(scope="module")
def designed(bench: Any) -> dict[str, Any]:
    outcome: dict[str, Any] = bench.run(INPUTS, seed=7)
    assert outcome["error"] is None
    return outcome


def native(chain: str) -> str:
    example = read_manifest(BUILTIN_ROOT / "flash_abb").input_schema["examples"][0]
    return str(example[{"H": "heavy", "L": "light"}[chain]])


def chains(outcome: dict[str, Any], chain: str) -> list[str]:
    return [design["chains"][chain] for design in outcome["result"]["sequences"]]


def without(tmp_path: Path, *residues: str) -> str:
    """The structure without residues such as `L30`."""
    path = tmp_path / "cut.pdb"
    lines = STRUCTURE.read_text().splitlines(keepends=True)
    path.write_text(
        "".join(line for line in lines if f"{line[21:22]}{line[22:26].strip()}" not in residues)
    )
    return str(path)


def test_the_result_fits_its_schema(designed: dict[str, Any]) -> None:
    jsonschema_rs.validate(MANIFEST.output_schema, designed["result"])
    assert designed["result"]["seed"] == 7


def test_a_protein_of_more_than_100_residues_is_designed_in_full(designed: dict[str, Any]) -> None:
    for sequence in chains(designed, "L"):
        assert len(sequence) == len(native("L")) == 112


def test_recovery_is_the_share_of_letters_kept(designed: dict[str, Any]) -> None:
    for design in designed["result"]["sequences"]:
        pairs = zip(design["chains"]["L"], native("L"), strict=True)
        kept = sum(ours == theirs for ours, theirs in pairs) / 112
        assert design["recovery"] == pytest.approx(kept, abs=1e-4)
        assert 0.3 < kept < 0.9
        assert 0.4 < design["score"] < 1.2


def test_the_fasta_file_holds_every_design(designed: dict[str, Any]) -> None:
    lines = designed["files"]["designs.fasta"].splitlines()
    assert lines[1::2] == chains(designed, "L")
    assert [line.partition("|")[0] for line in lines[::2]] == [">design_0", ">design_1"]


def test_the_same_seed_gives_the_same_designs(bench: Any, designed: dict[str, Any]) -> None:
    again = bench.run(INPUTS, seed=7)
    assert again["result"] == designed["result"]
    assert again["files"] == designed["files"]


def test_another_seed_gives_other_designs(bench: Any, designed: dict[str, Any]) -> None:
    other = bench.run(INPUTS, seed=2**63 - 1)
    assert not set(chains(other, "L")) & set(chains(designed, "L"))
    assert other["result"]["seed"] == 2**63 - 1


def test_a_design_does_not_depend_on_how_many_are_drawn(
    bench: Any, designed: dict[str, Any]
) -> None:
    many = bench.run({**INPUTS, "num_sequences": 9}, seed=7)
    assert many["result"]["sequences"][:2] == designed["result"]["sequences"]


def test_a_design_does_not_depend_on_its_batch(bench: Any, tmp_path: Path) -> None:
    """Equal lengths share passes; another length, other weights and a bad item stand aside."""
    calls = [
        {"inputs": INPUTS, "seed": 1},
        {"inputs": {**INPUTS, "chains_to_design": ["H"], "temperature": 0.5}, "seed": 2},
        {"inputs": {**INPUTS, "structure": without(tmp_path, "L30", "L31")}, "seed": 3},
        {"inputs": {**INPUTS, "model": "v_48_002", "num_sequences": 1}, "seed": 4},
        {"inputs": {**INPUTS, "chains_to_design": ["Z"]}, "seed": 5},
        {"inputs": {**INPUTS, "omit": ["C", "P"]}, "seed": 1},
    ]
    together = bench.run_batch(calls)
    alone = [bench.run(**call) for call in calls]
    for ours, theirs in zip(together, alone, strict=True):
        assert ours["result"] == theirs["result"]
        assert ours["files"] == theirs["files"]
        assert (ours["error"] is None) == (theirs["error"] is None)
    assert together[4]["error"]["details"]["code"] == "chain_not_found"


def test_several_chains_are_returned_each_under_its_own_id(bench: Any) -> None:
    inputs = {**INPUTS, "chains_to_design": ["L", "H"], "num_sequences": 1}
    outcome = bench.run(inputs, seed=3)
    (heavy,), (light,) = chains(outcome, "H"), chains(outcome, "L")
    assert (len(heavy), len(light)) == (121, 112)
    # Far more like their own chain than like the other one: nothing was swapped.
    assert outcome["result"]["sequences"][0]["recovery"] > 0.3
    assert outcome["result"]["designed_residues"] == 233


def test_omitted_amino_acids_are_never_placed(bench: Any) -> None:
    inputs = {**INPUTS, "omit": list("CDEFGHIKLMNPQRSTVW"), "temperature": 2}
    for sequence in chains(bench.run(inputs), "L"):
        assert set(sequence) <= {"A", "Y"}


def test_missing_residues_are_told_and_left_out(bench: Any, tmp_path: Path) -> None:
    inputs = {**INPUTS, "structure": without(tmp_path, "L30", "L31", "L32")}
    outcome = bench.run(inputs)
    assert outcome["warnings"] == ["residues_missing"]
    assert {len(sequence) for sequence in chains(outcome, "L")} == {109}


def test_a_short_peptide_is_designed(bench: Any, tmp_path: Path) -> None:
    """Fewer residues than the network has neighbours."""
    gone = [f"H{n}" for n in range(1, 122)] + [f"L{n}" for n in range(21, 113)]
    outcome = bench.run({**INPUTS, "structure": without(tmp_path, *gone)})
    assert {len(sequence) for sequence in chains(outcome, "L")} == {20}


def test_progress_rises_to_nearly_1_and_never_falls(bench: Any) -> None:
    fractions = bench.run({**INPUTS, "num_sequences": 9})["fractions"]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0
    assert 0.9 < fractions[-1] <= 1


def test_a_cancelled_job_stops_and_the_others_go_on(bench: Any) -> None:
    calls = [{"inputs": INPUTS, "seed": 1, "cancel_at": 0.1}, {"inputs": INPUTS, "seed": 2}]
    cancelled, kept = bench.run_batch(calls)
    assert kept["result"]["sequences"]
    # The pass it shares with the other one is finished; alone it stops at once.
    assert cancelled["result"] is not None
    alone = bench.run(INPUTS, seed=1, cancel_at=0.1)
    assert alone["error"]["code"] == "cancelled"
    assert alone["fractions"][-1] < 0.3


def test_a_job_goes_on_from_any_checkpoint_to_the_same_answer(bench: Any, tmp_path: Path) -> None:
    gone = [f"H{n}" for n in range(1, 122)] + [f"L{n}" for n in range(21, 113)]
    inputs = {**INPUTS, "structure": without(tmp_path, *gone), "num_sequences": 20}
    whole = bench.run(inputs, seed=5)
    assert [len(json.loads(saved)) for saved in whole["saved"]] == [8, 16]
    for saved in whole["saved"]:
        rest = bench.run(inputs, seed=5, resume=saved)
        assert rest["result"] == whole["result"]
        assert rest["files"] == whole["files"]
        assert rest["fractions"][1] >= len(json.loads(saved)) / 20


def test_more_letters_than_an_answer_holds_are_refused(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "long.pdb"
    lines = STRUCTURE.read_text().splitlines(keepends=True)
    path.write_text(
        "".join(
            line.replace(" L ", f" {chain} ")
            for chain in "LMNOPQRS"
            for line in lines
            if line[21:22] == "L"
        )
    )
    inputs = {"structure": str(path), "chains_to_design": list("LMNOPQRS"), "num_sequences": 64}
    error = bench.run(inputs)["error"]
    assert error["details"]["code"] == "too_many_sequences"
    assert error["details"]["expected"] == 50_000 // 896


def test_the_losses_are_those_of_the_published_network(builtin_python: Path) -> None:
    """Our features, order and decoding against the package's own, letter by letter."""
    script = Path(__file__).with_name("published_mpnn.py")
    for gone in ([], ["L30", "L31", "H100"]):
        done = subprocess.run(
            [builtin_python, script, STRUCTURE, *gone],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(BUILTIN_ROOT.parent),
                "OMP_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        told = json.loads(done.stdout)
        assert told["letters"] == 233 - len(gone)
        assert told["largest_difference"] < 1e-3
