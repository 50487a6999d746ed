"""What the runner hands to a plugin: the contexts of loading and of one job.

They implement `base.LoadContext` and `base.JobContext`. Standard library only.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_plugins.base import OutputFile
from model_plugins.frames import (
    FILE_NAME,
    MAX_CHECKPOINT_BYTES,
    RESUME_FILE,
    plain_text,
)

PROGRESS_PER_S = 10
MAX_WARNINGS = 20
MAX_OUTPUTS = 100
MEDIA_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)

Send = Callable[[str, dict[str, Any]], None]


class Phases:
    """Seconds spent in each named phase of loading; a phase lasts until the next one starts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name = ""
        self._since = time.monotonic()

    def enter(self, name: str) -> None:
        now = time.monotonic()
        if self._name:
            spent = self.seconds.get(self._name, 0.0) + now - self._since
            self.seconds[self._name] = round(spent, 4)
        self._name, self._since = plain_text(name, limit=48), now


@dataclass(frozen=True, kw_only=True)
class Loading:
    """A `LoadContext`."""

    device: str
    threads: int
    weights: Mapping[str, Path]
    phases: Phases

    def phase(self, name: str) -> None:
        self.phases.enter(name)


class Pace:
    """Lets a burst of `per_second` through, then that many a second."""

    def __init__(self, per_second: int) -> None:
        self._rate = per_second
        self._left = float(per_second)
        self._seen = time.monotonic()

    def allows(self) -> bool:
        now = time.monotonic()
        self._left = min(self._rate, self._left + (now - self._seen) * self._rate)
        self._seen = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Job:
    """A `JobContext`: one item of an `infer` frame."""

    def __init__(self, item: Mapping[str, Any], *, is_cancelled: Callable[[], bool], send: Send):
        self.job_id: str = item["job"]
        self.attempt: int = item["attempt"]
        self.seed: int = item["seed"]
        self.scratch = Path(item["scratch"])
        self.inputs: Mapping[str, Any] = item["inputs"]
        self.outputs: dict[str, OutputFile] = {}
        self.warnings: list[dict[str, str]] = []
        self._checkpoints = Path(item["checkpoints"])
        self._saved_step = -1
        self._is_cancelled = is_cancelled
        self._send = send
        self._fraction = 0.0
        self._pace = Pace(PROGRESS_PER_S)

    @property
    def cancelled(self) -> bool:
        return self._is_cancelled()

    def progress(self, fraction: float, *, stage: str = "", message: str = "") -> None:
        fraction = float(fraction)
        if not math.isnan(fraction):
            self._fraction = max(self._fraction, min(1.0, fraction))
        if self._pace.allows():
            self._send(
                "progress",
                {
                    "job": self.job_id,
                    "fraction": self._fraction,
                    "stage": plain_text(stage, limit=64),
                    "message": plain_text(message, limit=500),
                },
            )

    def output(self, name: str, *, media_type: str) -> OutputFile:
        if not FILE_NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name for an output file: letters, digits, `.`, `_` and `-`, "
                "not starting with a dot or a dash, at most 128 characters"
            )
        if name in self.outputs:
            raise ValueError(f"an output file named {name} is already reserved")
        if len(self.outputs) >= MAX_OUTPUTS:
            raise ValueError(f"a job leaves at most {MAX_OUTPUTS} output files")
        if not MEDIA_TYPE.fullmatch(media_type):
            raise ValueError(f"{media_type!r} is no media type such as chemical/x-pdb")
        file = OutputFile(name=name, media_type=media_type, path=self.scratch / name)
        self.outputs[name] = file
        return file

    def warn(self, code: str, message: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(
                {"code": plain_text(code, limit=64), "message": plain_text(message, limit=500)}
            )

    def save_checkpoint(self, data: bytes, *, step: int) -> None:
        if step <= self._saved_step:
            raise ValueError(f"checkpoints go forward: step {step} after {self._saved_step}")
        if len(data) > MAX_CHECKPOINT_BYTES:
            raise ValueError(f"a checkpoint has at most {MAX_CHECKPOINT_BYTES} bytes")
        self._saved_step = step
        # Written beside and renamed: the host never sees half of one.
        file = self._checkpoints / f"step-{step}"
        partial = self._checkpoints / "partial"
        partial.write_bytes(data)
        os.replace(partial, file)
        self._send("checkpoint", {"job": self.job_id, "step": step, "file": file.name})

    def resume(self) -> bytes | None:
        try:
            return (self._checkpoints / RESUME_FILE).read_bytes()
        except FileNotFoundError:
            return None
