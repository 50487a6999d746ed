"""Runs a measurement twice, each time in a process of its own: on SQLite, on PostgreSQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def measured(module: str, *arguments: str) -> list[dict[str, Any]]:
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
