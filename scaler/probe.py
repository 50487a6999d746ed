"""The scaler's sign of life: `python -m scaler.probe` ends with 0 while its rounds go on.

The loop leaves a sign with each round, in the folder `FOLDLINE_SIGNS`, if that is set.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

SILENT_S = 60.0


def leave_sign() -> None:
    """A round has ended."""
    if folder := os.environ.get("FOLDLINE_SIGNS"):
        with suppress(OSError):  # a sign that is missed must not stop the rounds
            (Path(folder) / "round").write_text(str(time.monotonic()))


def is_alive(*, now: float) -> bool:
    """`now` by the machine's monotonic clock."""
    try:
        at = float((Path(os.environ["FOLDLINE_SIGNS"]) / "round").read_text())
    except (OSError, ValueError, KeyError):
        return False
    return now - at < SILENT_S


if __name__ == "__main__":
    sys.exit(not is_alive(now=time.monotonic()))
