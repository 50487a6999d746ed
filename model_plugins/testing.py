"""The contract test of a plugin: run it before you hand a plugin in.

    python -m model_plugins.testing FOLDER

with the interpreter of the plugin's runtime and the repository as PYTHONPATH. It loads the
plugin and runs each example of its input schema; an input of format `artifact` is taken from
`FOLDER/examples/<field>.*`. Standard library only.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from model_plugins.base import Batches, Preflights
from model_plugins.bench import Bench, LocalJobContext, Outcome
from model_plugins.manifest import Manifest, read_manifest, read_runtime
from model_plugins.preflight import judge

__all__ = [
    "Bench",
    "Check",
    "LocalJobContext",
    "Outcome",
    "Report",
    "check_plugin",
    "incomplete_fields",
]

SEED, OTHER_SEED = 20, 21
Found = TypeVar("Found")
_BOUNDS = {"minimum", "maximum"}
_LIMITS: Mapping[str, Sequence[set[str]]] = {
    "string": ({"maxLength"}, {"pattern"}),
    "integer": (_BOUNDS,),
    "number": (_BOUNDS,),
    "array": ({"maxItems"},),
    "object": ({"properties"}, {"maxProperties"}),
}
"""What limits a field of each type: the keys of any one set."""


class ContractError(Exception):
    """The plugin does not keep the contract; the text says where."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """Every check in order. The first failure of manifest or loading ends the list."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def __str__(self) -> str:
        return "\n".join(
            f"{'ok  ' if check.ok else 'FAIL'}  {check.name}"
            + (f": {check.detail}" if check.detail else "")
            for check in self.checks
        )


def check_plugin(folder: Path, *, python: Path | None = None, device: str = "cpu") -> Report:
    """Check a plugin's folder, in this process or with the interpreter of its runtime."""
    if python is not None:
        return _checked_by(python, folder, device=device)
    examiner = _Examiner()
    _examine(folder.resolve(), examiner, device=device)
    return Report(checks=tuple(examiner.checks))


def _checked_by(python: Path, folder: Path, *, device: str) -> Report:
    root = Path(__file__).resolve().parents[1]
    command = [str(python), "-m", "model_plugins.testing", str(folder.resolve())]
    done = subprocess.run(
        [*command, "--device", device, "--json"],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        check=False,
    )
    try:
        return Report(checks=tuple(Check(**check) for check in json.loads(done.stdout)))
    except ValueError:
        ended = Check(name="the check ends", ok=False, detail=f"it left with {done.returncode}")
        return Report(checks=(ended,))


class _Examiner:
    """Notes what holds and what does not."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def check(self, name: str, look: Callable[[], Found]) -> Found | None:
        """What `look` returns, or None when it raised."""
        try:
            found = look()
        except Exception as error:
            kind = "" if isinstance(error, ContractError) else f"{type(error).__name__}: "
            self.checks.append(Check(name=name, ok=False, detail=f"{kind}{error}"))
            return None
        self.checks.append(Check(name=name, ok=True))
        return found


def _examine(folder: Path, examiner: _Examiner, *, device: str) -> None:
    manifest = examiner.check("the manifest and the runtime are valid", lambda: _readable(folder))
    if manifest is None:
        return
    examiner.check("every input field is complete", lambda: _complete(manifest.input_schema))
    bench = examiner.check(
        "the weights are there and it loads",
        lambda: Bench(folder, device=device, threads=manifest.threads),
    )
    if bench is None:
        return
    with bench:
        examiner.check("the manifest says whether it has a preflight", lambda: _told(bench))
        for number in range(len(manifest.input_schema["examples"])):
            _examine_example(bench, number, examiner)


def _examine_example(bench: Bench, number: int, examiner: _Examiner) -> None:
    name = f"example {number + 1}"
    inputs = examiner.check(f"{name} has its files", lambda: _example(bench.manifest, number))
    if inputs is None:
        return
    first = examiner.check(f"{name} runs", lambda: _run(bench, inputs, seed=SEED))
    if first is None:
        return
    examiner.check(f"{name} fits the output schema", lambda: _check_keys(bench.manifest, first))
    examiner.check(f"{name} leaves files with content", lambda: _check_files(first))
    examiner.check(f"{name} reports progress forwards", lambda: _check_progress(first.fractions))
    examiner.check(
        f"{name} gives the same answer twice",
        lambda: _check_same(first, _run(bench, inputs, seed=SEED)),
    )
    if isinstance(plugin := bench.plugin, Preflights):
        examiner.check(f"{name} passes the preflight", lambda: _check_preflight(plugin, inputs))
    if first.saved:
        examiner.check(
            f"{name} gives the same answer from its first checkpoint",
            lambda: _check_same(first, _run(bench, inputs, seed=SEED, resume=first.saved[0])),
        )
    if isinstance(bench.plugin, Batches):
        examiner.check(
            f"{name} gives the same answer in a batch", lambda: _check_batch(bench, inputs, first)
        )


def _told(bench: Bench) -> bool:
    has = isinstance(bench.plugin, Preflights)
    if bench.manifest.preflight is not has:
        raise ContractError(f"`preflight` must be {str(has).lower()} in [plugin]")
    return True


def _readable(folder: Path) -> Manifest:
    read_runtime(folder)
    return read_manifest(folder)


def incomplete_fields(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """What each input field lacks of description, unit, limit and example, where it does."""
    fields = schema.get("properties", {})
    return {name: lacks for name, field in fields.items() if (lacks := _lacks(field))}


def _complete(schema: Mapping[str, Any]) -> bool:
    if lacking := incomplete_fields(schema):
        words = (f"{name} ({', '.join(lacks)})" for name, lacks in lacking.items())
        raise ContractError(f"these fields lack something: {'; '.join(words)}")
    return True


def _lacks(field: Mapping[str, Any]) -> list[str]:
    lacks = [key for key in ("description", "x-unit", "examples") if not field.get(key)]
    closed = {"enum", "const", "format", "$ref"} & set(field) or field.get("type") == "boolean"
    limits = _LIMITS.get(str(field.get("type")), ())
    if not closed and not any(keys <= set(field) for keys in limits):
        lacks.append("a limit")
    return lacks


def _example(manifest: Manifest, number: int) -> dict[str, Any]:
    """An example with the file of `examples/<field>.*` in place of each artifact id."""
    inputs: dict[str, Any] = copy.deepcopy(manifest.input_schema["examples"][number])
    for name, field in manifest.input_schema.get("properties", {}).items():
        if name in inputs and field.get("format") == "artifact":
            files = sorted((manifest.folder / "examples").glob(f"{name}.*"))
            if len(files) != 1:
                raise ContractError(f"examples/{name}.* must be one file, there are {len(files)}")
            inputs[name] = str(files[0])
    return inputs


def _run(
    bench: Bench, inputs: Mapping[str, Any], *, seed: int, resume: bytes | None = None
) -> Outcome:
    given = copy.deepcopy(inputs)
    outcome = bench.run(bench.context(given, seed=seed, resume=resume))
    if outcome.error is not None:
        raise ContractError(f"{outcome.error['code']}: {outcome.error['message']}")
    if given != inputs:
        raise ContractError("it changed its inputs")
    return outcome


def _check_keys(manifest: Manifest, outcome: Outcome) -> bool:
    schema, result = manifest.output_schema, outcome.result or {}
    missing = set(schema.get("required", ())) - set(result)
    surplus = set(result) - set(schema.get("properties", {}))
    if missing or (surplus and schema.get("additionalProperties") is False):
        raise ContractError(f"missing: {sorted(missing)}, not in the schema: {sorted(surplus)}")
    return True


def _check_files(outcome: Outcome) -> bool:
    empty = [name for name, path in outcome.files.items() if path.stat().st_size == 0]
    if empty:
        raise ContractError(f"empty: {', '.join(empty)}")
    return True


def _check_progress(fractions: Sequence[float]) -> bool:
    if not all(0 <= fraction <= 1 for fraction in fractions):
        raise ContractError(f"a fraction is outside 0 to 1: {fractions}")
    if any(later < earlier for earlier, later in pairwise(fractions)):
        raise ContractError(f"it goes back: {fractions}")
    return True


def _check_same(first: Outcome, again: Outcome) -> bool:
    # Files are compared as well: a result names the hash of each.
    if first.result != again.result:
        raise ContractError(f"first {first.result}, then {again.result}")
    return True


def _check_preflight(plugin: Preflights, inputs: Mapping[str, Any]) -> bool:
    once = _judged(plugin, inputs)
    if _judged(plugin, once) != once:
        raise ContractError("a second preflight changes the inputs again")
    return True


def _judged(plugin: Preflights, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    answer = judge(plugin, copy.deepcopy(inputs))
    if "error" in answer:
        raise ContractError(f"{answer['error']['code']}: {answer['error']['message']}")
    tidied: Mapping[str, Any] = answer["inputs"]
    return tidied


def _check_batch(bench: Bench, inputs: Mapping[str, Any], alone: Outcome) -> bool:
    batch = bench.run_batch([bench.context(inputs, seed=seed) for seed in (OTHER_SEED, SEED)])
    _check_same(alone, batch[1])
    _check_same(_run(bench, inputs, seed=OTHER_SEED), batch[0])
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m model_plugins.testing", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    chosen = parser.parse_args(arguments)
    # What the plugin prints goes to stderr, also from C code, so that the report stays whole.
    with os.fdopen(os.dup(1), "w") as report:
        os.dup2(2, 1)
        found = check_plugin(chosen.folder, device=chosen.device)
        checks = [asdict(check) for check in found.checks]
        report.write((json.dumps(checks) if chosen.json else str(found)) + "\n")
    return 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(main())
