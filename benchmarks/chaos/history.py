"""What each process and caller saw, as JSON lines in a file of its own."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class History:
    """Appends events. One line is one `write`, so a kill tears at most the last line."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        path = folder / f"{name}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event: str, **fields: Any) -> None:
        """`t` is this machine's clock, which all the processes of a run share."""
        line = {"event": event, "by": self._name, "t": time.time(), **fields}
        os.write(self._file, json.dumps(line, default=str).encode() + b"\n")


def read(folder: Path) -> list[Event]:
    """All events of a run in the order of time; those of one file keep their order."""
    events: list[Event] = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(errors="replace").splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue  # the torn last line of a process that was killed
    return sorted(events, key=lambda event: event["t"])
