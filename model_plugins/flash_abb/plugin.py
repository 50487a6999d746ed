"""The FlashABB plugin: a heavy and a light chain in, one structure out.

torch is imported in `load` only, so that inputs can be checked without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from model_plugins.base import Inputs, JobContext, LoadContext, Result

from .sequences import Warn, split, tidy

if TYPE_CHECKING:
    from .folding import Folder

CHAINS = {"heavy": "H", "light": "L"}
DOUBTFUL_PLDDT = 70.0


class Plugin:
    """Folds one antibody variable region per job; nothing in it is random."""

    _folder: Folder

    def load(self, context: LoadContext) -> None:
        context.phase("import")
        from .folding import Folder

        context.phase("weights")
        self._folder = Folder(context.weights["flabb"], device=context.device)

    def preflight(self, inputs: Inputs) -> tuple[Inputs, Sequence[str]]:
        warnings: list[str] = []
        tidied = _tidied(inputs, lambda code, message: warnings.append(f"{code}: {message}"))
        return tidied, warnings

    def infer(self, inputs: Inputs, context: JobContext) -> Result:
        tidied = _tidied(inputs, context.warn)
        fold = self._folder.fold(heavy=tidied["heavy"], light=tidied["light"])
        structure = context.output("structure.pdb", media_type="chemical/x-pdb")
        structure.path.write_text(fold.pdb)
        if fold.mean_plddt < DOUBTFUL_PLDDT:
            context.warn(
                "low_confidence",
                f"The mean pLDDT is {fold.mean_plddt}; check that both sequences are variable "
                "domains and in the right fields.",
            )
        return {
            "structure": structure,
            "chains": [
                _chain(CHAINS[name], tidied[name], fold.chain_plddt[CHAINS[name]])
                for name in CHAINS
            ],
            "mean_plddt": fold.mean_plddt,
            "seed": context.seed,
        }


def _tidied(inputs: Inputs, warn: Warn) -> dict[str, str]:
    chains = zip(CHAINS, split(inputs["heavy"], inputs["light"], warn=warn), strict=True)
    return {name: tidy(chain, pointer=f"/{name}", warn=warn) for name, chain in chains}


def _chain(chain_id: str, sequence: str, plddt: float) -> dict[str, Any]:
    return {
        "id": chain_id,
        "sequence": sequence,
        "residues": len(sequence),
        "mean_plddt": plddt,
    }
