"""What `foldline run` must remember to take up a job after a crash: one small file per run.

The idempotency key of a submit is a hash of the call and of the run's id. The id is on disk
before anything is sent, so a run that was killed and is repeated has the same key, and gets the
same job. It is forgotten once the job's end has been shown: the next run is a new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from foldline.client.landing import write

KEPT_S = 6 * 24 * 3600
"""The server forgets a key after seven days."""


def state_folder() -> Path:
    """Where runs are remembered, by the XDG rules."""
    home = os.environ.get("XDG_STATE_HOME", "")
    root = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "state"
    return root / "foldline" / "runs"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One deliberate run. `again`: it was begun before and has not been seen to its end."""

    file: Path
    key: str
    again: bool

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)


def begin(folder: Path, *, where: str, call: Mapping[str, Any], fresh: bool = False) -> Run:
    """The run that is open for this very call at this server (`where`), or a new one.

    Once this returns, the run is on disk. `fresh` makes a new one in any case.
    """
    named = json.dumps([where, call], sort_keys=True)
    file = folder / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.json"
    run_id = None if fresh else _open_run(file)
    again = run_id is not None
    if run_id is None:
        run_id = uuid4().hex
        write(file, json.dumps({"run": run_id, "begun": time.time()}))
    key = hashlib.sha256(f"{run_id}\n{named}".encode()).hexdigest()
    return Run(file=file, key=f"cli-{key}", again=again)


def _open_run(file: Path) -> str | None:
    try:
        kept = json.loads(file.read_text())
        run_id, begun = str(kept["run"]), float(kept["begun"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return run_id if 0 <= time.time() - begun < KEPT_S else None
