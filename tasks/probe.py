"""Signs of a worker for whoever watches its process from beside it, such as a kubelet.

`python -m tasks.probe loaded | alive` ends with 0 or 1. Needs the standard library only, since it
runs every few seconds. The worker leaves its signs in the folder `FOLDLINE_SIGNS`, if that is set.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

LOADED = frozenset({"ready", "busy", "draining"})
SILENT_S = 120.0
"""A heartbeat waits this long at most for a database that does not answer."""


def leave_sign(state: str) -> None:
    """A worker's heartbeat: what it is doing, and that it lives."""
    if folder := os.environ.get("FOLDLINE_SIGNS"):
        sign = Path(folder) / "state"
        draft = sign.with_suffix(".draft")
        with suppress(OSError):  # a sign that is missed must not stop the pulse
            draft.write_text(f"{state} {time.monotonic()}")
            draft.rename(sign)


def is_well(question: str, *, now: float) -> bool:
    """Whether the worker is `loaded`, or `alive`; `now` by the machine's monotonic clock."""
    try:
        state, at = (Path(os.environ["FOLDLINE_SIGNS"]) / "state").read_text().split(" ")
        lives = now - float(at) < SILENT_S
    except (OSError, ValueError, KeyError):
        return False
    return lives if question == "alive" else state in LOADED


if __name__ == "__main__":
    sys.exit(not is_well(sys.argv[1], now=time.monotonic()))
