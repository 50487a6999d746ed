"""The designs of one or several jobs: in which passes they are drawn, and what is told of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

from model_plugins.base import JobCancelled, JobContext, OutputInvalid, Result

from .network import ALPHABET, UNKNOWN, Drawn, Network, Site
from .request import Request

MOST_ROWS = 8
MOST_RESIDUES = 4000
"""Sequences and residues in one pass: more saves no time and costs memory."""


@dataclass(kw_only=True, eq=False)
class Task:
    """One job on its way."""

    request: Request
    context: JobContext
    site: Site
    designs: list[dict[str, Any]] = field(default_factory=list)

    def report(self, underway: float) -> None:
        """Tell how far it is; `underway` counts the sequences of this pass as they proceed."""
        done = (len(self.designs) + underway) / self.request.count
        self.context.progress(done, stage="design")

    def save(self) -> None:
        """Keep the designs that are done. Each depends on its number alone, not on its pass."""
        if 0 < len(self.designs) < self.request.count:
            data = json.dumps(self.designs).encode()
            self.context.save_checkpoint(data, step=len(self.designs))

    def resume(self) -> None:
        """Go on after the designs of the attempt before, if there was one."""
        data = self.context.resume()
        if data is not None:
            self.designs = json.loads(data)


def run(network: Network, tasks: Sequence[Task]) -> None:
    """Draw every design of jobs of one length; a job that is cancelled takes no more passes."""
    size = max(1, min(MOST_ROWS, MOST_RESIDUES // tasks[0].request.length))
    for task in tasks:
        task.resume()
    rows = (
        (task, index) for task in tasks for index in range(len(task.designs), task.request.count)
    )
    wanted = (row for row in rows if not row[0].context.cancelled)
    while chunk := list(islice(wanted, size)):
        try:
            _draw(network, chunk)
        except JobCancelled:
            continue


def _draw(network: Network, chunk: Sequence[tuple[Task, int]]) -> None:
    """One pass. Raises JobCancelled when nobody wants any of its sequences any more."""
    counts = Counter(task for task, _ in chunk)

    def tick(fraction: float) -> None:
        if all(task.context.cancelled for task in counts):
            raise JobCancelled
        for task, count in counts.items():
            task.report(fraction * count)

    draws = [
        network.draw(task.request, task.site, seed=task.context.seed, index=index)
        for task, index in chunk
    ]
    for (task, index), drawn in zip(chunk, network.decode(draws, tick=tick), strict=True):
        task.designs.append(_design(task, drawn, index))
    for task in counts:
        task.save()


def _design(task: Task, drawn: Drawn, index: int) -> dict[str, Any]:
    designed, native = task.site.designed.cpu(), task.site.native.cpu()
    compared = designed & (native != UNKNOWN)
    score = float(drawn.losses[designed].mean())
    if not math.isfinite(score):
        raise OutputInvalid(f"The score of design {index} is not finite.")
    recovered = (drawn.letters == native)[compared].float().mean()
    return {
        "chains": _by_chain(task.request, drawn),
        "score": round(score, 4),
        "recovery": round(float(recovered), 4) if compared.any() else None,
        "seed_index": index,
    }


def _by_chain(request: Request, drawn: Drawn) -> dict[str, str]:
    letters = zip(request.residues, drawn.letters.tolist(), strict=True)
    return {
        chain: "".join(ALPHABET[letter] for _, letter in group)
        for chain, group in groupby(letters, key=lambda pair: pair[0].chain)
        if chain in request.designed
    }


def result(task: Task) -> Result:
    """The job's answer. Raises JobCancelled when it was cancelled before all was drawn."""
    if len(task.designs) < task.request.count:
        raise JobCancelled
    fasta = task.context.output("designs.fasta", media_type="text/x-fasta")
    fasta.path.write_text("".join(map(_fasta, task.designs)))
    return {
        "sequences": task.designs,
        "designs": fasta,
        "designed_residues": int(task.site.designed.sum()),
        "model": task.request.model,
        "temperature": task.request.temperature,
        "seed": task.context.seed,
    }


def _fasta(design: dict[str, Any]) -> str:
    name = f"design_{design['seed_index']}"
    about = f"score={design['score']} recovery={design['recovery']}"
    return "".join(
        f">{name}|chain_{chain} {about}\n{sequence}\n"
        for chain, sequence in design["chains"].items()
    )
