"""Lays one set of CA atoms over another: which residues meet, how far apart, how alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import biotite.structure as structure
import numpy as np

from model_plugins.base import InvalidInput
from model_plugins.structures import Residue

from .atoms import atom_array
from .request import Request

MOST_ROUNDS = 20
FEWEST_PAIRS = 3


@dataclass(frozen=True, kw_only=True)
class Score:
    """The comparison of two structures; distances in Å."""

    tm_score: float
    rmsd: float
    pairs: Sequence[tuple[Residue, Residue]]  # model, reference
    transformation: structure.AffineTransformation  # lays the model over the reference


def score(request: Request) -> Score:
    """Compare the model with the reference. Raises InvalidInput when nothing can be paired."""
    pairs = list(_one_to_one(request) if request.one_to_one else _aligned(request))
    model = _places([residue for residue, _ in pairs])
    reference = _places([residue for _, residue in pairs])
    fitted, _ = structure.superimpose(reference, model)
    length = sum(map(len, request.reference))
    tm_score, transformation = _best(model, reference, length=length)
    return Score(
        tm_score=tm_score,
        rmsd=float(structure.rmsd(reference, fitted)),
        pairs=pairs,
        transformation=transformation,
    )


def _one_to_one(request: Request) -> Iterator[tuple[Residue, Residue]]:
    for ours, theirs in zip(request.model, request.reference, strict=True):
        yield from zip(ours, theirs, strict=True)


def _aligned(request: Request) -> list[tuple[Residue, Residue]]:
    """Residues that meet in a structural alignment over all chains."""
    ours, theirs = (list(chain(*side)) for side in (request.model, request.reference))
    model, reference = atom_array(ours), atom_array(theirs)
    try:
        _, _, reference_atoms, model_atoms = structure.superimpose_structural_homologs(
            reference, model, max_iterations=MOST_ROUNDS, reference_length=len(theirs)
        )
    except ValueError:
        model_atoms = reference_atoms = np.array([], dtype=int)
    if len(model_atoms) < FEWEST_PAIRS:
        raise InvalidInput(
            "The structures are too different to be aligned.",
            pointer="/model",
            reason="not_alignable",
            got={"model": len(ours), "reference": len(theirs)},
            expected="structures with a common part",
            hint="Compare chains of equal length, or pair the chains in `chains`.",
        )
    return [
        (ours[place], theirs[other])
        for place, other in zip(
            _residues_of(model, model_atoms), _residues_of(reference, reference_atoms), strict=True
        )
    ]


def _residues_of(array: structure.AtomArray, atoms: np.ndarray) -> np.ndarray:
    """Which CA, counted along the array, each atom index is: one CA stands for one residue."""
    return np.searchsorted(np.flatnonzero(array.atom_name == "CA"), atoms)


def _places(residues: Sequence[Residue]) -> np.ndarray:
    return np.array([residue.atoms["CA"] for residue in residues])


def _best(
    model: np.ndarray, reference: np.ndarray, *, length: int
) -> tuple[float, structure.AffineTransformation]:
    """The highest TM-score over superpositions of paired places (n, 3), with its superposition.

    Search as in Zhang & Skolnick 2004 (doi:10.1002/prot.20264): from fragments of several
    lengths, fit, keep the pairs that come close, fit again until they stay the same.
    """
    scale = max(1.24 * float(np.cbrt(length - 15)) - 1.8, 0.5)
    near = min(max(scale, 4.5), 8.0)
    best, found = -1.0, structure.superimpose(reference, model)[1]
    for chosen in _fragments(len(model)):
        for _ in range(MOST_ROUNDS):
            _, transformation = structure.superimpose(reference[chosen], model[chosen])
            apart = structure.distance(reference, transformation.apply(model))
            score = float(np.sum(1 / (1 + (apart / scale) ** 2))) / length
            if score > best:
                best, found = score, transformation
            kept = _closest(apart, near)
            if np.array_equal(kept, chosen):
                break
            chosen = kept
    return best, found


def _fragments(count: int) -> Iterator[np.ndarray]:
    """Everything, then halves, quarters and eighths that overlap by half."""
    for parts in (1, 2, 4, 8):
        size = max(count // parts, FEWEST_PAIRS)
        for first in range(0, count - size + 1, max(size // 2, 1)):
            yield np.arange(first, first + size)


def _closest(apart: np.ndarray, limit: float) -> np.ndarray:
    """Indices of the pairs within the limit, and of the closest three at least."""
    return np.flatnonzero(
        apart <= max(limit, np.partition(apart, FEWEST_PAIRS - 1)[FEWEST_PAIRS - 1])
    )
