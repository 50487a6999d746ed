"""From a job's inputs to residues that can be designed, or an error that says what to change.

Chains and residues stay in the order of the file, so that nothing has to be put back into
order afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from model_plugins.base import Inputs, InvalidInput
from model_plugins.structures import Residue, Structure, chain_not_found, read_structure

BACKBONE = ("N", "CA", "C", "O")
MAX_RESIDUES = 2000
MAX_LETTERS = 50_000
"""Letters in all designs together: an answer has at most 64 KB."""
DEFAULT_COUNT = 8
DEFAULT_TEMPERATURE = 0.1
DEFAULT_MODEL = "v_48_020"

Warnings = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One job: a complete backbone, which of its chains to design, and how."""

    residues: Sequence[Residue]
    designed: frozenset[str]
    count: int
    temperature: float
    model: str
    omit: str

    @property
    def length(self) -> int:
        return len(self.residues)

    @property
    def native(self) -> str:
        """The input's sequence over all chains; `X` where it is unknown."""
        return "".join(residue.letter for residue in self.residues)

    def indices(self) -> list[int]:
        """Place of each residue along its chain; numbers missing in the file leave a gap."""
        places = [0]
        for one, other in pairwise(self.residues):
            step = other.number - one.number if one.chain == other.chain else 1
            places.append(places[-1] + max(1, step))
        return places


def read_request(inputs: Inputs) -> tuple[Request, Warnings]:
    """The job's request and what the caller should know about it. Raises InvalidInput."""
    structure = read_structure(Path(inputs["structure"]), pointer="/structure")
    chains = inputs["chains_to_design"]
    for place, chain in enumerate(chains):
        if chain not in structure.chains:
            raise chain_not_found(chain, structure, pointer=f"/chains_to_design/{place}")
    residues = [residue for chain in structure.chains.values() for residue in chain]
    _check_size(residues)
    _check_backbone(residues)
    request = Request(
        residues=residues,
        designed=frozenset(chains),
        count=inputs.get("num_sequences", DEFAULT_COUNT),
        temperature=inputs.get("temperature", DEFAULT_TEMPERATURE),
        model=inputs.get("model", DEFAULT_MODEL),
        omit="".join(sorted(inputs.get("omit", ()))),
    )
    _check_letters(request)
    return request, [*structure.warnings, *_gap_warnings(structure, chains)]


def _check_size(residues: Sequence[Residue]) -> None:
    if len(residues) > MAX_RESIDUES:
        raise InvalidInput(
            f"The structure has {len(residues)} residues; at most {MAX_RESIDUES} fit.",
            pointer="/structure",
            reason="too_long",
            got=len(residues),
            expected=MAX_RESIDUES,
            hint="Keep the chains to design and those they touch.",
        )


def _check_backbone(residues: Sequence[Residue]) -> None:
    missing = [
        f"{residue.label}:{atom}"
        for residue in residues
        for atom in BACKBONE
        if atom not in residue.atoms
    ]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise InvalidInput(
            f"Backbone atoms are missing: {', '.join(missing[:5])}{more}.",
            pointer="/structure",
            reason="backbone_atom_missing",
            got=missing[:5],
            expected=list(BACKBONE),
            hint="Every residue needs N, CA, C and O: rebuild these atoms or remove the residues.",
        )


def _check_letters(request: Request) -> None:
    each = sum(residue.chain in request.designed for residue in request.residues)
    if each * request.count > MAX_LETTERS:
        raise InvalidInput(
            f"{request.count} sequences of {each} designed residues do not fit into one answer.",
            pointer="/num_sequences",
            reason="too_many_sequences",
            got=request.count,
            expected=MAX_LETTERS // each,
            hint="Ask for fewer in one call and make several calls.",
        )


def _gap_warnings(structure: Structure, chains: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Numbers that a designed chain skips: its sequence will not hold those residues."""
    for chain in chains:
        gaps = [
            f"{one.label}-{other.label}"
            for one, other in pairwise(structure.chains[chain])
            if other.number - one.number > 1
        ]
        if gaps:
            yield (
                "residues_missing",
                f"Chain {chain} skips numbers at {', '.join(gaps[:5])}; the designs hold only "
                "the residues that are in the file.",
            )
