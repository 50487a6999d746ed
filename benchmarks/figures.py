"""A figure: what was measured, what was aimed at, on which machine and when."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
SEED = 20261130


def figure(
    name: str,
    value: float,
    *,
    unit: str,
    at_most: float | None = None,
    exactly: float | None = None,
    between: tuple[float, float] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One figure. `ok` is None when nothing was aimed at: the value is told for itself."""
    target, ok = None, None
    if at_most is not None:
        target, ok = f"<= {at_most:g}", value <= at_most
    elif exactly is not None:
        target, ok = f"= {exactly:g}", value == exactly
    elif between is not None:
        low, high = between
        target, ok = f"{low:g} to {high:g}", low <= value <= high
    value = round(value, 3)
    return {"name": name, "value": value, "unit": unit, "target": target, "ok": ok, **more}


def publish(benchmark: str, figures: list[dict[str, Any]]) -> None:
    """Print one line a figure, and keep them in docs/figures with machine, date and seed.

    A figure that was not reached stays, with the value that was.
    """
    for each in figures:
        print(json.dumps(each), flush=True)
    document = {
        "benchmark": benchmark,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "seed": SEED,
        "figures": figures,
    }
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / f"{benchmark}.json").write_text(json.dumps(document, indent=2) + "\n")


def machine() -> str:
    """Processor, cores, memory and versions; nothing that names a place or a person."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    python = f"Python {platform.python_version()}"
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}, {python}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
