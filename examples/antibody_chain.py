#!/usr/bin/env python3
"""A small agent: redesign an antibody's light chain and see whether it still folds.

Fold a heavy|light pair, redesign the light chain, fold the best designs again (all at once),
compare each with the original. It knows Foldline's client (the extra `client`) and nothing else:

    FOLDLINE_URL=http://127.0.0.1:8000 FOLDLINE_API_KEY=fl_live_... python antibody_chain.py
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foldline.client import Foldline, FoldlineError, Job, JobFailed, Patience, Unreachable

HEAVY = (
    "EVQLLESGGEVKKPGASVKVSCRASGYTFRNYGLTWVRQAPGQGLEWMGWISAYNGNTNYAQKFQGRVTLTTDTSTSTAYMELRSLRS"
    "DDTAVYFCARDVPGHGAAFMDVWGTGTTVTVSS"
)
LIGHT = (
    "DIQLTQSPLSLPVTLGQPASISCRSSQSLEASDTNIYLSWFQQRPGQSPRRLIYKISNRDSGVPDRFSGSGSGTHFTLRISRVEADDV"
    "AVYYCMQGTHWPPAFGQGTKVDIK"
)
DESIGNS, BEST, SEED = 8, 3, 7
Result = Mapping[str, Any]


@dataclass(kw_only=True)
class Work:
    """One call, as last seen."""

    label: str
    job: Job

    @property
    def queued_s(self) -> float:
        return _seconds(self.job.created_at, self.job.started_at)

    @property
    def running_s(self) -> float:
        return _seconds(self.job.started_at, self.job.finished_at)

    def line(self) -> str:
        """Its state for the person in front."""
        job, detail = self.job, ""
        if job.state == "queued":
            place, reason = job.queue.position, job.queue.blocked_reason
            detail = ", ".join(str(part) for part in (place and f"place {place}", reason) if part)
        elif job.state == "running" and job.progress:
            detail = f"{job.progress.fraction:.0%} {job.progress.stage}"
        times = f"{self.queued_s:6.1f} s queued {self.running_s:6.1f} s running"
        return f"  {self.label:<22} {job.state:<10} {times}  {detail}".rstrip()


def _seconds(begin: datetime | None, end: datetime | None) -> float:
    """Between two of a job's times; up to now where the later one is still to come."""
    return 0.0 if begin is None else max(0.0, ((end or datetime.now(UTC)) - begin).total_seconds())


class Agent:
    """Submits calls under one session, and waits for them with their states on the screen."""

    def __init__(self, foldline: Foldline) -> None:
        self.foldline = foldline
        self.session = f"antibody-chain-{uuid.uuid4()}"

    def submit(
        self, label: str, model: str, inputs: dict[str, Any], *, seed: int | None = None
    ) -> Work:
        if seed is None:
            job = self.foldline.submit(model, inputs, session=self.session)
        else:
            job = self.foldline.submit(model, inputs, session=self.session, seed=seed)
        return Work(label=label, job=job)

    def finish(self, *works: Work) -> list[Result]:
        """Their results, once all have ended. Raises JobFailed when one does not succeed."""
        screen = Screen()

        def seen(jobs: Sequence[Job]) -> None:
            for work, job in zip(works, jobs, strict=True):
                work.job = job
                if job.ended and job.state != "succeeded":
                    raise JobFailed(job)
            screen.show(works)

        self.foldline.wait([work.job for work in works], seen=seen)
        return [self.foldline.result(work.job.id).result for work in works]

    def cancel_open(self) -> str:
        """Cancel what is still open, also a job whose answer was never read; says how it went."""
        try:
            still_open = [
                job for job in self.foldline.jobs(session=self.session).jobs if not job.ended
            ]
            for job in still_open:
                self.foldline.cancel(job.id)
        except FoldlineError as error:
            return f"open jobs could not be cancelled: {error}"
        return f"{len(still_open)} open jobs were cancelled."


class Screen:
    """Live states: on a terminal one line per job that changes, elsewhere a line per change."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self.drawn = 0
        self.last: dict[str, str] = {}

    def show(self, works: Sequence[Work]) -> None:
        if self.live:
            up = f"\x1b[{self.drawn}A" if self.drawn else ""
            width = shutil.get_terminal_size().columns - 1  # a wrapped line would break it
            print(up + "\n".join(f"\x1b[2K{work.line()[:width]}" for work in works), flush=True)
            self.drawn = len(works)
            return
        for work in works:
            if self.last.get(work.label) != work.job.state:
                self.last[work.label] = work.job.state
                print(work.line(), flush=True)


def chain(agent: Agent, folder: Path) -> None:
    """The agent's work."""
    print("Fold the original")
    pair = {"heavy": HEAVY, "light": LIGHT}
    (original,) = agent.finish(agent.submit("original", "flash_abb", pair))
    structure = original["structure"]["artifact"]

    print(f"Redesign the light chain ({DESIGNS} sequences)")
    inputs = {"structure": structure, "chains_to_design": ["L"], "num_sequences": DESIGNS}
    (design,) = agent.finish(agent.submit("designs", "proteinmpnn", inputs, seed=SEED))
    by_sequence = {entry["chains"]["L"]: entry for entry in design["sequences"]}
    best = sorted(by_sequence.values(), key=lambda entry: entry["score"])[:BEST]

    print(f"Fold the best {len(best)} designs, all at once")
    works = [
        agent.submit(f"refold {number}", "flash_abb", {**pair, "light": entry["chains"]["L"]})
        for number, entry in enumerate(best, start=1)
    ]
    refolds = agent.finish(*works)

    print("Compare them with the original")
    scores = agent.finish(
        *(
            agent.submit(
                f"score {number}",
                "structure_score",
                {"model": refold["structure"]["artifact"], "reference": structure},
            )
            for number, refold in enumerate(refolds, start=1)
        )
    )

    show_table(best, works, refolds, scores)
    foldline = agent.foldline
    foldline.download(structure, folder / "original.pdb")
    foldline.download(design["designs"]["artifact"], folder / "designs.fasta")
    for number, score in enumerate(scores, start=1):
        # Laid over the original, so that a viewer shows them together.
        foldline.download(score["superimposed"]["artifact"], folder / f"design_{number}.pdb")
    print(f"\nStructures: {folder.resolve()}")


def show_table(
    best: Sequence[Result],
    works: Sequence[Work],
    refolds: Sequence[Result],
    scores: Sequence[Result],
) -> None:
    print("\n  design  recovery  TM-score  RMSD (Å)  pLDDT  queued (s)  running (s)")
    rows = zip(best, works, refolds, scores, strict=True)
    for number, (entry, work, refold, score) in enumerate(rows, start=1):
        print(
            f"  {number:>6}  {entry['recovery']:>8.1%}  {score['tm_score']:>8.3f}"
            f"  {score['rmsd']:>8.2f}  {refold['mean_plddt']:>5.1f}"
            f"  {work.queued_s:>10.1f}  {work.running_s:>11.1f}"
        )


def interrupt(_number: int, _frame: object) -> None:
    """The first Ctrl-C is for the jobs; a second one ends the program."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt


def main() -> int:
    key = os.environ.get("FOLDLINE_API_KEY")
    if not key:
        print("Set FOLDLINE_API_KEY to your API key.", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    url = os.environ.get("FOLDLINE_URL") or "http://127.0.0.1:8000"
    with Foldline(url, key, patience=Patience(total_s=15)) as foldline:
        agent = Agent(foldline)
        try:
            chain(agent, Path(os.environ.get("FOLDLINE_RESULTS") or "foldline-results"))
        except KeyboardInterrupt:
            print(f"\nStopped; {agent.cancel_open()}")
            return 130
        except FoldlineError as error:
            print(f"\n{told(error)}", file=sys.stderr)
            if not isinstance(error, Unreachable):
                agent.cancel_open()
            return 1
    return 0


def told(error: FoldlineError) -> str:
    wrong = [f"{found.pointer}: {found.code}, {found.hint}" for found in error.errors]
    return "\n  ".join([str(error), *wrong])


if __name__ == "__main__":
    sys.exit(main())
