"""From a job's inputs to the chains of two structures that are compared with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model_plugins.base import Inputs, InvalidInput
from model_plugins.structures import Residue, Structure, chain_not_found, read_structure

MAX_RESIDUES = 3000
FEWEST_RESIDUES = 5

Warnings = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Request:
    """Residues that have a CA, chain by chain; `pairs` says which chain meets which."""

    pairs: Sequence[tuple[str, str]]
    model: Sequence[Sequence[Residue]]
    reference: Sequence[Sequence[Residue]]

    @property
    def one_to_one(self) -> bool:
        """True where every chain is as long as the one it meets."""
        lengths = zip(self.model, self.reference, strict=True)
        return all(len(ours) == len(theirs) for ours, theirs in lengths)


def read_request(inputs: Inputs) -> tuple[Request, Warnings]:
    """The job's request and what the caller should know about it. Raises InvalidInput."""
    sides = {
        side: read_structure(Path(inputs[side]), pointer=f"/{side}")
        for side in ("model", "reference")
    }
    warnings = [warning for structure in sides.values() for warning in structure.warnings]
    pairs = _pairs(inputs.get("chains"), sides, warnings)
    chosen = {
        side: [_with_ca(sides[side].chains[pair[place]], side, warnings) for pair in pairs]
        for place, side in enumerate(("model", "reference"))
    }
    for side, chains in chosen.items():
        _check_size(sum(map(len, chains)), pointer=f"/{side}")
    return Request(pairs=pairs, **chosen), warnings


def _pairs(
    asked: Sequence[Mapping[str, str]] | None,
    sides: Mapping[str, Structure],
    warnings: Warnings,
) -> list[tuple[str, str]]:
    if asked is None:
        return _matched(sides, warnings)
    for place, pair in enumerate(asked):
        for side, structure in sides.items():
            if pair[side] not in structure.chains:
                pointer = f"/chains/{place}/{side}"
                raise chain_not_found(pair[side], structure, pointer=pointer)
    pairs = [(pair["model"], pair["reference"]) for pair in asked]
    for side, place in (("model", 0), ("reference", 1)):
        ids = [pair[place] for pair in pairs]
        if len(set(ids)) < len(ids):
            raise InvalidInput(
                f"A chain of the {side} is paired twice.",
                pointer="/chains",
                reason="chain_paired_twice",
                got=ids,
                expected="each chain at most once",
                hint="Give each chain one partner.",
            )
    return pairs


def _matched(sides: Mapping[str, Structure], warnings: Warnings) -> list[tuple[str, str]]:
    """Chains of equal id; or the only chain of each, whatever it is called."""
    ours, theirs = (sides[side].chains for side in ("model", "reference"))
    common = [chain for chain in theirs if chain in ours]
    if common:
        alone = sorted({*ours, *theirs} - set(common))
        if alone:
            warnings.append(
                (
                    "chains_left_out",
                    f"Not compared, for only one file has them: {', '.join(alone)}.",
                )
            )
        return [(chain, chain) for chain in common]
    if len(ours) == len(theirs) == 1:
        return [(next(iter(ours)), next(iter(theirs)))]
    raise InvalidInput(
        "The structures share no chain id, and more than one pairing is possible.",
        pointer="/chains",
        reason="chains_ambiguous",
        got={"model": sorted(ours), "reference": sorted(theirs)},
        expected="pairs of chains",
        hint="Say which chains belong together in `chains`.",
    )


def _with_ca(chain: Sequence[Residue], side: str, warnings: Warnings) -> list[Residue]:
    kept = [residue for residue in chain if "CA" in residue.atoms]
    if len(kept) < len(chain):
        missing = [residue.label for residue in chain if "CA" not in residue.atoms]
        warnings.append(
            ("ca_missing", f"Left out of the {side} for want of a CA: {', '.join(missing[:5])}.")
        )
    return kept


def _check_size(count: int, *, pointer: str) -> None:
    if not FEWEST_RESIDUES <= count <= MAX_RESIDUES:
        raise InvalidInput(
            f"The compared chains have {count} residues with a CA.",
            pointer=pointer,
            reason="too_short" if count < FEWEST_RESIDUES else "too_long",
            got=count,
            expected=[FEWEST_RESIDUES, MAX_RESIDUES],
            hint="Compare other chains, or fewer of them.",
        )
