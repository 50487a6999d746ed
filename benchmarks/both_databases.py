"""Runs a measurement twice, each time in a process of its own: on SQLite, on PostgreSQL.

A benchmark's `main` is `on_both(NAME, measure)`. Its `measure` imports `stage`, and with it Django,
only when it is called: in the process that measures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import publish

ROOT = Path(__file__).resolve().parents[1]


def on_both(
    name: str, measure: Callable[[], list[dict[str, Any]]], *arguments: str, module: str = ""
) -> None:
    """Publish as NAME what `measure` gives on each database. `arguments` lead a process of the
    module (NAME, unless it is another one) to the same `measure`."""
    if "--here" in sys.argv:
        for each in measure():
            print(json.dumps(each))
        return
    publish(name, _measured(f"benchmarks.{module or name}", *arguments))


def _measured(module: str, *arguments: str) -> list[dict[str, Any]]:
    """The figures that `python -m MODULE --here` prints on either database."""
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    command = [sys.executable, "-m", module, "--here", *arguments]
    figures: list[dict[str, Any]] = []
    for wrapper in ([], [str(ROOT / "scripts" / "with-postgres")]):
        told = subprocess.run(
            [*wrapper, *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True
        )
        figures += [json.loads(line) for line in told.stdout.splitlines()]
    return figures
