"""FlashABB on its weights: sequences to coordinates, confidence and PDB text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from flash_abb import pretrained
from flash_abb.model.openfold.np.residue_constants import (
    restype_1to3,
    restype_name_to_atom14_names,
)

from model_plugins.base import OutputInvalid


@dataclass(frozen=True, kw_only=True)
class Fold:
    """One predicted structure; confidences are pLDDT, 0 to 100, with one decimal."""

    pdb: str
    mean_plddt: float
    chain_plddt: Mapping[str, float]


class Folder:
    """Holds the loaded network."""

    def __init__(self, weights: Path, *, device: str) -> None:
        # The package would unpickle its file; the state dict needs no pickled code.
        self._model = pretrained(random_init=True, device=device)
        state = torch.load(weights, map_location=device, weights_only=True)
        self._model.flabb.load_state_dict(state)

    def fold(self, *, heavy: str, light: str) -> Fold:
        """Fold one Fv. Both sequences hold standard amino acids only."""
        with torch.inference_mode():
            output = self._model([f"{heavy}|{light}"]).output
        plddt = _plddt(output["plddt"][0].float().cpu())
        positions = output["positions"][-1, 0].float().cpu().numpy()
        if not (np.isfinite(plddt).all() and np.isfinite(positions).all()):
            raise OutputInvalid("The predicted coordinates are not finite.")
        return Fold(
            pdb=_pdb(positions, plddt, heavy=heavy, light=light),
            mean_plddt=_mean(plddt),
            chain_plddt={"H": _mean(plddt[: len(heavy)]), "L": _mean(plddt[len(heavy) :])},
        )


def _mean(values: np.ndarray) -> float:
    return round(float(values.mean()), 1)


def _plddt(logits: torch.Tensor) -> np.ndarray:
    """Expected lDDT per residue, 0 to 100, from logits over equal bins (residues, bins)."""
    bins = logits.shape[-1]
    centres = (torch.arange(bins) + 0.5) * (100.0 / bins)
    return np.asarray((logits.softmax(-1) * centres).sum(-1))


def _pdb(positions: np.ndarray, plddt: np.ndarray, *, heavy: str, light: str) -> str:
    """PDB text from 14 atom places per residue (residues, 14, 3), in Å."""
    lines = ["REMARK   1 PREDICTED BY FLASHABB; B-FACTORS ARE PLDDT (0 TO 100)"]
    serial = 0
    for chain, sequence, first in (("H", heavy, 0), ("L", light, len(heavy))):
        for number, letter in enumerate(sequence, start=1):
            row = first + number - 1
            residue = restype_1to3[letter]
            for name, place in zip(
                restype_name_to_atom14_names[residue], positions[row], strict=True
            ):
                if name:
                    serial += 1
                    x, y, z = place
                    lines.append(
                        f"ATOM  {serial:5d}  {name:<3} {residue} {chain}{number:4d}    "
                        f"{x:8.3f}{y:8.3f}{z:8.3f}  1.00{plddt[row]:6.2f}          {name[0]:>2}"
                    )
        serial += 1
        lines.append(f"TER   {serial:5d}      {residue} {chain}{number:4d}")
    return "\n".join([*lines, "END", ""])
