from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from model_plugins.base import InvalidInput
from model_plugins.structure_text import MAX_BYTES
from model_plugins.structures import read_structure


def atom(
    name: str = "CA", residue: str = "ALA", place: str = "A   1 ", *, x: float = 1.0, alt: str = " "
) -> str:
    return (
        f"ATOM      1  {name:<3}{alt}{residue} {place}   {x:8.3f}{2.0:8.3f}{3.0:8.3f}  1.00 10.00"
    )


def read(tmp_path: Path, *lines: str) -> dict[str, list[str]]:
    path = tmp_path / "input.pdb"
    path.write_text("\n".join(lines) + "\n")
    chains = read_structure(path, pointer="/structure").chains
    return {chain: [f"{r.letter}{r.label}" for r in found] for chain, found in chains.items()}


def test_residues_keep_the_order_and_numbers_of_the_file(tmp_path: Path) -> None:
    lines = [atom(place=place) for place in ("B   9 ", "B   3 ", "B   3A", "A  -1 ")]
    assert read(tmp_path, *lines) == {"B": ["AB9", "AB3", "AB3A"], "A": ["AA-1"]}


def test_the_first_of_alternative_places_counts(tmp_path: Path) -> None:
    path = tmp_path / "input.pdb"
    path.write_text("\n".join([atom(x=1.0, alt="A"), atom(x=9.0, alt="B")]))
    (residue,) = read_structure(path, pointer="").chains["A"]
    assert residue.atoms == {"CA": (1.0, 2.0, 3.0)}


def test_the_first_of_alternative_residues_counts(tmp_path: Path) -> None:
    lines = [atom(residue="SER", alt="A"), atom(residue="THR", alt="B"), atom("N", "THR", alt="B")]
    assert read(tmp_path, *lines) == {"A": ["SA1"]}


def test_an_unknown_amino_acid_is_an_x(tmp_path: Path) -> None:
    assert read(tmp_path, atom(residue="UNK")) == {"A": ["XA1"]}


def test_nucleic_acids_are_no_protein(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, atom("P", " DA"))
    assert refused.value.details["code"] == "no_atoms"


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Line 2 is no PDB atom record") as refused:
        read(tmp_path, atom(), "ATOM      2 CA ALA A 1 1.0 2.0 3.0")
    assert refused.value.details["got"] == "ATOM      2 CA ALA A 1 1.0 2.0 3.0"


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_too_large_is_refused_without_being_unpacked(tmp_path: Path, packed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    path = tmp_path / "input.pdb"
    body = b" " * (MAX_BYTES + 10_000_000)
    path.write_bytes(gzip.compress(body, compresslevel=1) if packed else body)
    with pytest.raises(InvalidInput) as refused:
        read_structure(path, pointer="/structure")
    assert refused.value.details["code"] == "file_too_large"
