"""Reads the residues of a PDB file, with an error an agent can act on for each thing wrong.

Shared by the plugins that read structures; standard library only. Residues stay in file
order and keep their numbers: nothing is renumbered or sorted.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from model_plugins.base import InvalidInput
from model_plugins.structure_text import Warnings, read_lines

Point = tuple[float, float, float]

LETTERS: Mapping[str, str] = {
    "ALA": "A", "ARG": "R", "ASN": "N", "ASP": "D", "CYS": "C", "GLN": "Q", "GLU": "E",
    "GLY": "G", "HIS": "H", "ILE": "I", "LEU": "L", "LYS": "K", "MET": "M", "PHE": "F",
    "PRO": "P", "SER": "S", "THR": "T", "TRP": "W", "TYR": "Y", "VAL": "V",
}  # fmt: skip
PARENTS: Mapping[str, str] = {
    "MSE": "MET", "SEC": "CYS", "CSO": "CYS", "CME": "CYS", "OCS": "CYS", "SEP": "SER",
    "TPO": "THR", "PTR": "TYR", "HYP": "PRO", "MLY": "LYS", "M3L": "LYS", "KCX": "LYS",
    "LLP": "LYS", "PCA": "GLN", "HID": "HIS", "HIE": "HIS", "HIP": "HIS", "CYX": "CYS",
}  # fmt: skip
"""Modified residues that are read as the amino acid they were made from."""
_SILENT = frozenset({"HOH", "WAT", "DOD"})


@dataclass(kw_only=True)
class Residue:
    """One amino acid: its three-letter name, author number and atoms (Å) by name."""

    chain: str
    name: str
    number: int
    insertion: str
    atoms: dict[str, Point] = field(default_factory=dict)

    @property
    def letter(self) -> str:
        """One-letter code, `X` for a residue that is none of the 20."""
        return LETTERS.get(self.name, "X")

    @property
    def label(self) -> str:
        """Chain and number as an author writes them, such as `B53` or `H52A`."""
        return f"{self.chain}{self.number}{self.insertion}"


@dataclass(frozen=True, kw_only=True)
class Structure:
    """The protein chains of a file by chain id, in file order, and what was changed."""

    chains: Mapping[str, Sequence[Residue]]
    warnings: Sequence[tuple[str, str]]


def read_structure(path: Path, *, pointer: str) -> Structure:
    """The first model of a PDB file. Raises InvalidInput."""
    warnings: Warnings = []
    lines = read_lines(path, pointer=pointer, warnings=warnings)
    residues = _residues(_first_model(lines, warnings), warnings, pointer=pointer)
    kept = list(_proteins(residues, warnings))
    if not kept:
        raise InvalidInput(
            "The file holds no protein atoms.",
            pointer=pointer,
            reason="no_atoms",
            got="0 amino acids",
            expected="ATOM records of at least one protein chain",
            hint="Check that the artifact is the PDB file you meant.",
        )
    return Structure(chains=_by_chain(kept, warnings), warnings=tuple(warnings))


def chain_not_found(wanted: str, structure: Structure, *, pointer: str) -> InvalidInput:
    """The error for a chain id the file does not have; says which ones it has."""
    available = sorted(structure.chains)
    return InvalidInput(
        f"The structure has no chain {wanted!r}.",
        pointer=pointer,
        reason="chain_not_found",
        got=wanted,
        expected=available,
        hint=f"Use one of the file's author chain ids: {', '.join(available)}.",
    )


def _first_model(lines: Iterable[str], warnings: Warnings) -> Iterator[tuple[int, str]]:
    """Numbered ATOM and HETATM lines up to the end of the first model."""
    ended = False
    for number, line in enumerate(lines, start=1):
        if line.startswith("ENDMDL"):
            ended = True
        elif ended and line.startswith("MODEL"):
            warnings.append(("first_model_used", "The file has several models; the first counts."))
            return
        elif not ended and line.startswith(("ATOM  ", "HETATM")):
            yield number, line


def _residues(
    lines: Iterable[tuple[int, str]], warnings: Warnings, *, pointer: str
) -> list[tuple[bool, Residue]]:
    """Residues in file order, each with whether it is part of a polymer."""
    mapped: set[str] = set()
    found: dict[tuple[str, str, str, str], tuple[bool, Residue]] = {}
    for number, line in lines:
        name, chain = line[17:20].strip().upper(), line[21:22].strip()
        parent = PARENTS.get(name, name)
        polymer = line.startswith("ATOM") or name in PARENTS
        if name in PARENTS:
            mapped.add(f"{name} as {parent}")
        try:
            position = int(line[22:26])
            place = (float(line[30:38]), float(line[38:46]), float(line[46:54]))
        except ValueError as error:
            raise _bad_line(number, line, pointer=pointer) from error
        if not all(map(math.isfinite, place)):
            raise _bad_line(number, line, pointer=pointer)
        # Alternative residues at one number: the first one counts, as with atoms below.
        key = (chain, line[22:26], line[26:27], "" if polymer else name)
        residue = Residue(chain=chain, name=parent, number=position, insertion=line[26:27].strip())
        _, known = found.setdefault(key, (polymer, residue))
        if known.name == parent:
            known.atoms.setdefault(line[12:16].strip(), place)
    if mapped:
        warnings.append(("residues_mapped", f"Read {', '.join(sorted(mapped))}."))
    return list(found.values())


def _bad_line(number: int, line: str, *, pointer: str) -> InvalidInput:
    return InvalidInput(
        f"Line {number} is no PDB atom record: its number or coordinates cannot be read.",
        pointer=pointer,
        reason="pdb_line_unreadable",
        got=line[:54],
        expected="fixed PDB columns with finite coordinates in Å",
        hint="PDB is a column format; write the file with a structure library.",
    )


def _proteins(residues: Iterable[tuple[bool, Residue]], warnings: Warnings) -> Iterator[Residue]:
    """Amino acids only; says by name what else was left out."""
    ignored: set[str] = set()
    for polymer, residue in residues:
        if polymer and (residue.name in LETTERS or "CA" in residue.atoms):
            yield residue
        elif residue.name not in _SILENT:
            ignored.add(residue.name)
    if ignored:
        names = ", ".join(sorted(ignored)[:10])
        warnings.append(("not_protein_ignored", f"Components that are no protein: {names}."))


def _by_chain(residues: Sequence[Residue], warnings: Warnings) -> Mapping[str, Sequence[Residue]]:
    taken = {residue.chain for residue in residues}
    nameless = next((letter for letter in string.ascii_uppercase if letter not in taken), "0")
    chains: dict[str, list[Residue]] = {}
    for residue in residues:
        residue.chain = residue.chain or nameless
        chains.setdefault(residue.chain, []).append(residue)
    if "" in taken:
        warnings.append(("chain_renamed", f"The chain without an id is called {nameless}."))
    return chains
