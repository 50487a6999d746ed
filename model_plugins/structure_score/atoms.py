"""Residues as biotite's atoms, and back into a PDB file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import biotite.structure as structure
from biotite.structure.io.pdb import PDBFile

from model_plugins.structures import Residue


def atom_array(residues: Sequence[Residue]) -> structure.AtomArray:
    """Every atom of the residues, in order."""
    return structure.array(
        [
            structure.Atom(
                place,
                chain_id=residue.chain,
                res_id=residue.number,
                ins_code=residue.insertion,
                res_name=residue.name,
                atom_name=name,
                element=name.lstrip("0123456789")[:1],
            )
            for residue in residues
            for name, place in residue.atoms.items()
        ]
    )


def write_pdb(array: structure.AtomArray, path: Path) -> None:
    """Write atoms as a PDB file."""
    file = PDBFile()
    file.set_structure(array)
    file.write(str(path))
