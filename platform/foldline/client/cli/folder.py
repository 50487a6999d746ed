"""The files of a batch: what each asks for, and what became of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foldline.client.asks import Call, Options
from foldline.client.cli.door import parsed
from foldline.client.cli.runs import Run, begin
from foldline.client.cli.words import clean
from foldline.client.landing import write
from foldline.client.shapes import Job, Problem, Result

RESULTS = "results"
_OPTIONS = frozenset(Options.__annotations__)


@dataclass(kw_only=True)
class Item:
    """One file. `outcome`: as told in the summary; `written`: it is in results/NAME.json."""

    name: str
    results: Path
    asked: dict[str, Any]
    wrong: str = ""
    outcome: str = "not sent"
    detail: str = ""
    job_id: str = ""
    skipped: bool = False
    written: bool = False
    _run: Run | None = field(default=None, repr=False)

    @property
    def file(self) -> Path:
        return self.results / f"{self.name}.json"

    @property
    def to_do(self) -> bool:
        return not self.skipped and not self.wrong

    @property
    def digest(self) -> str:
        """Of the call: a file that was changed is another call."""
        return hashlib.sha256(json.dumps(self.asked, sort_keys=True).encode()).hexdigest()

    def call(self, more: Options) -> Call:
        """The call, its idempotency key on disk before anything is sent. `more`: what the whole
        batch is sent with; with something else, it is another call."""
        self._run = begin(
            self.results / ".runs", where=self.name, call={"asked": self.asked, **more}
        )
        options = Options(**{k: v for k, v in self.asked.items() if k in _OPTIONS})  # type: ignore[typeddict-item]  # the server checks them
        return Call(
            model=self.asked["model"],
            inputs=self.asked["inputs"],
            options=options,
            idempotency_key=self._run.key,
        )

    def ended(self, job: Job, result: Result | None = None) -> None:
        self.job_id, self.outcome = job.id, job.state
        told: dict[str, Any] = {"state": job.state, "job": job.id}
        if result is not None:
            told["result"] = result.body
        elif job.error is not None:
            self.detail = job.error.detail
            told["error"] = job.error.body
        self._write(told)

    def refused(self, problem: Problem, *, index: int) -> None:
        """`index`: its place in the batch, where the pointers begin; its file has no such place."""
        place = f"/jobs/{index}"
        self.outcome, self.detail = "refused", problem.detail
        if problem.errors:
            found = problem.errors[0]
            self.detail += f" {found.pointer.removeprefix(place)}: {found.code} {found.hint}"
        errors = [
            {**found.body, "pointer": found.pointer.removeprefix(place)} for found in problem.errors
        ]
        told = {**problem.body, "errors": errors} if errors else problem.body
        self._write({"state": "refused", "error": told})

    def _write(self, told: Mapping[str, Any]) -> None:
        told = {"name": self.name, "call": self.digest, **told}
        write(self.file, json.dumps(told, indent=1) + "\n")
        self.written = True
        if self._run is not None:
            self._run.forget()

    def told(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "outcome": self.outcome,
            "job": self.job_id or None,
            "file": str(self.file) if self.written or self.skipped else None,
            "detail": self.detail,
        }

    def row(self) -> Sequence[str]:
        detail = "was done before" if self.skipped else self.detail
        return self.name, self.outcome, self.job_id, detail


def items_of(folder: Path, *, model: str | None) -> list[Item]:
    """Every *.json of the folder, by name; those that are done are marked."""
    items = []
    for file in sorted(folder.glob("*.json")):
        asked = _asked(file, model)
        item = Item(name=file.stem, results=folder / RESULTS, asked={})
        if isinstance(asked, str):
            item.wrong = item.detail = asked
            item.outcome = "unreadable"
        else:
            item.asked = asked
            _recall(item)
        items.append(item)
    return items


def _asked(file: Path, model: str | None) -> dict[str, Any] | str:
    """The call that a file asks for, or why it asks for none."""
    try:
        found = parsed(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        return clean(error)
    if isinstance(found, str):
        return found
    if model is not None:
        return {"model": model, "inputs": found}
    if not isinstance(found.get("model"), str) or not isinstance(found.get("inputs"), dict):
        return 'a "model" and an object "inputs" are needed, or --model'
    unknown = sorted(set(found) - _OPTIONS - {"model", "inputs"})
    return f"unknown members: {clean(', '.join(unknown))}" if unknown else found


def _recall(item: Item) -> None:
    """Whether this very call has succeeded before."""
    try:
        kept = json.loads(item.file.read_text())
        done = kept["call"] == item.digest and kept["state"] == "succeeded"
        job_id = str(kept["job"])
    except (OSError, ValueError, TypeError, KeyError):
        return
    if done:
        item.skipped, item.outcome, item.job_id = True, "succeeded", job_id
