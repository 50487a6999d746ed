"""The structure comparison plugin: a model and a reference in, TM-score and RMSD out.

biotite is imported in `load` only, so that inputs can be checked without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from model_plugins.base import Inputs, JobContext, LoadContext, OutputInvalid, Result

from .request import read_request


class Plugin:
    """Compares two structures; nothing in it is random."""

    def load(self, context: LoadContext) -> None:
        context.phase("import")
        from . import superposition

        self._superposition = superposition

    def preflight(self, inputs: Inputs) -> tuple[Inputs, Sequence[str]]:
        _, warnings = read_request(inputs)
        return inputs, [f"{code}: {message}" for code, message in warnings]

    def infer(self, inputs: Inputs, context: JobContext) -> Result:
        from .atoms import atom_array, write_pdb

        request, warnings = read_request(inputs)
        for code, message in warnings:
            context.warn(code, message)
        score = self._superposition.score(request)
        if not (math.isfinite(score.tm_score) and math.isfinite(score.rmsd)):
            raise OutputInvalid("The TM-score or the RMSD is not finite.")
        superimposed = context.output("superimposed.pdb", media_type="chemical/x-pdb")
        atoms = atom_array(list(chain(*request.model)))
        write_pdb(score.transformation.apply(atoms), superimposed.path)
        same = sum(ours.letter == theirs.letter for ours, theirs in score.pairs)
        return {
            "tm_score": min(1.0, round(score.tm_score, 4)),
            "rmsd": round(score.rmsd, 3),
            "aligned_residues": len(score.pairs),
            "model_residues": sum(map(len, request.model)),
            "reference_residues": sum(map(len, request.reference)),
            "sequence_identity": round(same / len(score.pairs), 4),
            "pairing": "one_to_one" if request.one_to_one else "structural_alignment",
            "chains": [{"model": ours, "reference": theirs} for ours, theirs in request.pairs],
            "superimposed": superimposed,
            "seed": context.seed,
        }
