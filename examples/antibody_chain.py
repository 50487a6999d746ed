#!/usr/bin/env python3
"""A small agent: redesign an antibody's light chain and see whether it still folds.

Fold a heavy|light pair, redesign the light chain, fold the best designs again (all at once),
compare each with the original. It knows Foldline's REST interface and nothing else, and
needs only Python:

    FOLDLINE_URL=http://127.0.0.1:8000 FOLDLINE_API_KEY=fl_live_... python antibody_chain.py
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

HEAVY = (
    "EVQLLESGGEVKKPGASVKVSCRASGYTFRNYGLTWVRQAPGQGLEWMGWISAYNGNTNYAQKFQGRVTLTTDTSTSTAYMELRSLRS"
    "DDTAVYFCARDVPGHGAAFMDVWGTGTTVTVSS"
)
LIGHT = (
    "DIQLTQSPLSLPVTLGQPASISCRSSQSLEASDTNIYLSWFQQRPGQSPRRLIYKISNRDSGVPDRFSGSGSGTHFTLRISRVEADDV"
    "AVYYCMQGTHWPPAFGQGTKVDIK"
)
DESIGNS, BEST, SEED = 8, 3, 7
TRIES = 6
ENDED = ("succeeded", "failed", "cancelled", "expired")


class Refused(Exception):
    """Foldline refused a call or a job failed; the message says what to do."""


@dataclass(kw_only=True)
class Job:
    """One call, as last seen."""

    label: str
    seen: dict[str, Any]
    ask_at: float
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.seen["state"] in ENDED

    def seconds(self, since: str, until: str) -> float:
        """Between two of the job's times; up to now where the later one is still to come."""
        begin, end = self.seen[since], self.seen[until]
        if begin is None:
            return 0.0
        later = datetime.fromisoformat(end) if end else datetime.now().astimezone()
        return max(0.0, (later - datetime.fromisoformat(begin)).total_seconds())

    @property
    def queued_s(self) -> float:
        return self.seconds("created_at", "started_at")

    @property
    def running_s(self) -> float:
        return self.seconds("started_at", "finished_at")

    def line(self) -> str:
        """Its state for the person in front."""
        progress = self.seen["progress"] or {}
        detail = ""
        if self.seen["state"] == "queued":
            place = self.seen["queue"]["position"]
            reason = self.seen["queue"]["blocked_reason"]
            detail = ", ".join(str(part) for part in (place and f"place {place}", reason) if part)
        elif self.seen["state"] == "running" and progress:
            detail = f"{progress['fraction']:.0%} {progress['stage']}"
        times = f"{self.queued_s:6.1f} s queued {self.running_s:6.1f} s running"
        return f"  {self.label:<22} {self.seen['state']:<10} {times}  {detail}".rstrip()


class Foldline:
    """The few REST calls an agent needs. A call that may have got lost is sent again with the
    same Idempotency-Key, so it never becomes two jobs."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self.key = key
        self.session = f"antibody-chain-{uuid.uuid4()}"

    def submit(self, label: str, model: str, inputs: dict[str, Any], **more: Any) -> Job:
        body = {"inputs": inputs, "session": self.session, **more}
        once = {"Idempotency-Key": str(uuid.uuid4())}
        seen = self._json("POST", f"/v1/models/{model}/jobs", body=body, headers=once)
        return Job(label=label, seen=seen, ask_at=time.monotonic() + _pause(seen))

    def look(self, job: Job) -> None:
        """Ask for the job's state; once it has succeeded, for its result too."""
        job.seen = self._json("GET", f"/v1/jobs/{job.seen['id']}")
        job.ask_at = time.monotonic() + _pause(job.seen)
        if not job.ended:
            return
        if job.seen["state"] != "succeeded":
            error = job.seen["error"] or {}
            raise Refused(
                f"{job.label}: {job.seen['state']}. {error.get('detail', '')} "
                f"{error.get('suggested_action', '')}".strip()
            )
        job.result = self._json("GET", f"/v1/jobs/{job.seen['id']}/result")["result"]

    def download(self, artifact: str, file: Path) -> None:
        file.write_bytes(self._call("GET", f"/v1/artifacts/{artifact}/content"))

    def cancel_open(self) -> str:
        """Cancel what is still open, also a job whose answer was never read; says how it went."""
        try:
            jobs = self._json("GET", f"/v1/jobs?session={self.session}", tries=1)["jobs"]
            still_open = [job for job in jobs if job["state"] not in ENDED]
            for job in still_open:
                self._call("POST", f"/v1/jobs/{job['id']}/cancel", tries=1)
        except Refused as refused:
            return f"open jobs could not be cancelled: {refused}"
        return f"{len(still_open)} open jobs were cancelled."

    def _json(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._call(method, path, **more))
        return answer

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        tries: int = TRIES,
    ) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - the person running this gave the URL
            self.url + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={
                "Authorization": f"Bearer {self.key}",
                **({"Content-Type": "application/json"} if body is not None else {}),
                **(headers or {}),
            },
        )
        for left in reversed(range(tries)):
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
                    content: bytes = answer.read()
                    return content
            except urllib.error.HTTPError as error:
                if not left or error.code not in (429, 502, 503, 504):
                    raise Refused(_told(error)) from error
                time.sleep(float(error.headers.get("Retry-After") or 1))
            except OSError as error:
                if not left:
                    raise Refused(f"Nothing answers at {self.url} ({error}).") from error
                time.sleep(1)
        raise AssertionError("unreachable")


def _pause(seen: dict[str, Any]) -> float:
    """Seconds until it is worth asking again, as the answer says."""
    return float(seen["poll_after_s"] or 0)


def _told(error: urllib.error.HTTPError) -> str:
    """An answer of the type application/problem+json, in a sentence or two."""
    try:
        problem = json.loads(error.read())
    except ValueError:
        return f"HTTP {error.code}"
    wrong = [f"{e['pointer']}: {e['code']}, {e['hint']}" for e in problem.get("errors", ())]
    return "\n  ".join([f"{problem['detail']} {problem['suggested_action']}", *wrong])


class Screen:
    """Live states: on a terminal one line per job that changes, elsewhere a line per change."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self.drawn = 0
        self.last: dict[str, str] = {}

    def show(self, jobs: Sequence[Job]) -> None:
        if self.live:
            up = f"\x1b[{self.drawn}A" if self.drawn else ""
            width = shutil.get_terminal_size().columns - 1  # a wrapped line would break it
            print(up + "\n".join(f"\x1b[2K{job.line()[:width]}" for job in jobs), flush=True)
            self.drawn = len(jobs)
            return
        for job in jobs:
            if self.last.get(job.label) != job.seen["state"]:
                self.last[job.label] = job.seen["state"]
                print(job.line(), flush=True)


def finish(foldline: Foldline, *jobs: Job) -> None:
    """Wait for all of them, showing their states. Raises Refused when one does not succeed."""
    screen = Screen()
    screen.show(jobs)
    while not all(job.ended for job in jobs):
        time.sleep(0.1)
        for job in jobs:
            if not job.ended and time.monotonic() >= job.ask_at:
                foldline.look(job)
        screen.show(jobs)
    for job in jobs:
        if not job.result:
            foldline.look(job)  # it had ended when it was submitted


def chain(foldline: Foldline, folder: Path) -> None:
    """The agent's work."""
    print("Fold the original")
    original = foldline.submit("original", "flash_abb", {"heavy": HEAVY, "light": LIGHT})
    finish(foldline, original)
    structure = original.result["structure"]["artifact"]

    print(f"Redesign the light chain ({DESIGNS} sequences)")
    inputs = {"structure": structure, "chains_to_design": ["L"], "num_sequences": DESIGNS}
    design = foldline.submit("designs", "proteinmpnn", inputs, seed=SEED)
    finish(foldline, design)
    by_sequence = {entry["chains"]["L"]: entry for entry in design.result["sequences"]}
    best = sorted(by_sequence.values(), key=lambda entry: entry["score"])[:BEST]

    print(f"Fold the best {len(best)} designs, all at once")
    refolds = [
        foldline.submit(
            f"refold {number}", "flash_abb", {"heavy": HEAVY, "light": entry["chains"]["L"]}
        )
        for number, entry in enumerate(best, start=1)
    ]
    finish(foldline, *refolds)

    print("Compare them with the original")
    scores = [
        foldline.submit(
            f"score {number}",
            "structure_score",
            {"model": refold.result["structure"]["artifact"], "reference": structure},
        )
        for number, refold in enumerate(refolds, start=1)
    ]
    finish(foldline, *scores)

    show_table(best, refolds, scores)
    folder.mkdir(parents=True, exist_ok=True)
    foldline.download(structure, folder / "original.pdb")
    foldline.download(design.result["designs"]["artifact"], folder / "designs.fasta")
    for number, score in enumerate(scores, start=1):
        # Laid over the original, so that a viewer shows them together.
        superimposed = score.result["superimposed"]["artifact"]
        foldline.download(superimposed, folder / f"design_{number}.pdb")
    print(f"\nStructures: {folder.resolve()}")


def show_table(best: Sequence[dict[str, Any]], refolds: list[Job], scores: list[Job]) -> None:
    print("\n  design  recovery  TM-score  RMSD (Å)  pLDDT  queued (s)  running (s)")
    for number, (entry, refold, score) in enumerate(zip(best, refolds, scores, strict=True), 1):
        print(
            f"  {number:>6}  {entry['recovery']:>8.1%}  {score.result['tm_score']:>8.3f}"
            f"  {score.result['rmsd']:>8.2f}  {refold.result['mean_plddt']:>5.1f}"
            f"  {refold.queued_s:>10.1f}  {refold.running_s:>11.1f}"
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
    foldline = Foldline(os.environ.get("FOLDLINE_URL") or "http://127.0.0.1:8000", key)
    try:
        chain(foldline, Path(os.environ.get("FOLDLINE_RESULTS") or "foldline-results"))
    except KeyboardInterrupt:
        print(f"\nStopped; {foldline.cancel_open()}")
        return 130
    except Refused as refused:
        print(f"\n{refused}", file=sys.stderr)
        foldline.cancel_open()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
