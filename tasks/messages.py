"""What goes into a plugin host and what comes out of it: values and refusals."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class PluginSpec:
    """Which plugin to run, with what. `weights` are mappings of name, package, path, sha256."""

    name: str
    folder: Path
    entry: str
    python: Path
    threads: int
    device: str
    weights: tuple[Mapping[str, str], ...]
    load_timeout_s: float
    import_root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the scrubbed environment; never put a credential here."""
    scratch: Path = Path(tempfile.gettempdir())
    """Where the process gets its own empty folder (working folder, HOME, TMPDIR)."""
    address_space_bytes: int | None = None
    """None with CUDA, which maps far more than it uses."""
    open_files: int = 4096


@dataclass(frozen=True, kw_only=True)
class Item:
    """One job of a call. `scratch` exists, is empty and belongs to this attempt.

    `checkpoints` is a folder beside it: what the attempt before saved lies there as
    RESUME_FILE, and what this one saves is put there. `ran_out` has code, message and
    together, when an attempt before ran out of memory; such an item is asked alone.
    """

    job: str
    attempt: int
    inputs: Mapping[str, Any]
    seed: int
    scratch: Path
    checkpoints: Path
    ran_out: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint that a plugin has put down: a regular file, not looked into."""

    job: str
    step: int
    path: Path


@dataclass(frozen=True, kw_only=True)
class OutputFile:
    """A regular file in the item's scratch folder. The plugin still runs: open it with
    O_NOFOLLOW."""

    name: str
    media_type: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The end of one item: a result or an error, never both.

    `result` is at most 64 KB of storable JSON in which `{"$file": name}` stands for one of
    `files`. `error` has code, message and perhaps pointer, details, traceback.
    """

    job: str
    result: dict[str, Any] | None = None
    files: tuple[OutputFile, ...] = ()
    warnings: tuple[Mapping[str, str], ...] = ()
    error: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a job is; 0 <= fraction <= 1."""

    fraction: float
    stage: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A finished start: seconds from spawning to ready, whole and by phase."""

    seconds: float
    phases: Mapping[str, float]
    device: str
    peak_rss_bytes: int
    peak_gpu_bytes: int = 0
    """As torch reserved it; 0 when the plugin has no torch or no card."""


@dataclass(frozen=True, kw_only=True)
class StartFailure:
    """Why a plugin did not come up, with the last lines it printed.

    `code` is load_failed, load_timeout, weights_mismatch, gpu_oom, host_oom,
    interpreter_missing or the name of a death.
    """

    code: str
    message: str
    log: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What a call's `stop()` answers. `jobs` limits a cancel to some of a batch; the others
    go on, and the answers of the cancelled ones are of no interest."""

    reason: Literal["cancel", "fenced"]
    jobs: frozenset[str] = frozenset()


class PluginDied(Exception):
    """The plugin process ended, or was ended for breaking the protocol, during the call."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class DeadlinePassed(Exception):
    """No time was left; every process of the plugin was killed."""


class Stopped(Exception):
    """The call was stopped: `reason` is cancel, fenced or stopping (the host itself ends)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotReady(Exception):
    """No loaded plugin: nothing was started. Wait for `ready` and call again."""
