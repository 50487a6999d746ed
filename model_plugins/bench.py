"""Runs a plugin in this process, the way the runner would: same import, same contexts, same
answers. For tests and for a plugin's author; use the interpreter of the plugin's runtime.
"""

from __future__ import annotations

import hashlib
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from model_plugins.answers import answer, failure
from model_plugins.base import Batches
from model_plugins.contexts import Job, Loading, Phases
from model_plugins.frames import FILE_KEY, RESUME_FILE
from model_plugins.loading import import_plugin, verified_weights
from model_plugins.manifest import read_manifest


class LocalJobContext(Job):
    """A job without a platform: its progress is kept to be looked at, and it is cancelled
    when it has come as far as `cancel_at`."""

    def __init__(
        self,
        inputs: Mapping[str, Any],
        *,
        seed: int,
        scratch: Path,
        cancel_at: float,
        resume: bytes | None,
    ) -> None:
        checkpoints = scratch.with_name(f"{scratch.name}-checkpoints")
        checkpoints.mkdir(exist_ok=True)
        if resume is not None:
            (checkpoints / RESUME_FILE).write_bytes(resume)
        item = {"job": scratch.name, "attempt": 1, "seed": seed, "scratch": scratch}
        super().__init__(
            {**item, "inputs": inputs, "checkpoints": checkpoints},
            is_cancelled=lambda: max(self.fractions, default=0.0) >= cancel_at,
            send=lambda *_: None,
        )
        self.fractions: list[float] = []
        self.saved: list[bytes] = []

    def progress(self, fraction: float, *, stage: str = "", message: str = "") -> None:
        self.fractions.append(fraction)
        super().progress(fraction, stage=stage, message=message)

    def save_checkpoint(self, data: bytes, *, step: int) -> None:
        super().save_checkpoint(data, step=step)
        self.saved.append(data)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a plugin answered for one job: a result as a caller would see it, or an error."""

    result: dict[str, Any] | None
    error: dict[str, Any] | None
    warnings: Sequence[Mapping[str, str]]
    files: Mapping[str, Path]
    fractions: Sequence[float]
    saved: Sequence[bytes]
    """Every checkpoint, in order."""


class Bench:
    """A loaded plugin on a workbench. Use it as a context manager; it cleans up its files."""

    def __init__(self, folder: Path, *, device: str = "cpu", threads: int = 1) -> None:
        self.manifest = read_manifest(folder)
        self.phases = Phases()
        weights = verified_weights([asdict(weight) for weight in self.manifest.weights])
        self.plugin = import_plugin(
            name=self.manifest.name, folder=folder, entry=self.manifest.entry
        )
        self.plugin.load(
            Loading(device=device, threads=threads, weights=weights, phases=self.phases)
        )
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(threads)
        self._home = tempfile.TemporaryDirectory(prefix="foldline-bench-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._home.cleanup()

    def context(
        self,
        inputs: Mapping[str, Any],
        *,
        seed: int = 0,
        cancel_at: float = math.inf,
        resume: bytes | None = None,
    ) -> LocalJobContext:
        """A job with an empty scratch folder of its own; `resume`: a checkpoint to go on from."""
        scratch = Path(tempfile.mkdtemp(prefix="job-", dir=self._home.name))
        return LocalJobContext(
            inputs, seed=seed, scratch=scratch, cancel_at=cancel_at, resume=resume
        )

    def run(self, job: LocalJobContext) -> Outcome:
        """One job by `infer`."""
        try:
            told = answer(self.plugin.infer(job.inputs, job), job)
        except Exception as error:
            told = failure(error, job)
        return _outcome(told, job)

    def run_batch(self, jobs: Sequence[LocalJobContext]) -> list[Outcome]:
        """Several jobs in one `infer_batch`."""
        if not isinstance(self.plugin, Batches):
            raise TypeError(f"{self.manifest.name} has no infer_batch")
        results = self.plugin.infer_batch([(job.inputs, job) for job in jobs])
        pairs = zip(results, jobs, strict=True)
        return [_outcome(answer(result, job), job) for result, job in pairs]


def _outcome(told: Mapping[str, Any], context: LocalJobContext) -> Outcome:
    result = told.get("result")
    return Outcome(
        result=None if result is None else _with_files(result, context),
        error=told.get("error"),
        warnings=context.warnings,
        files={name: file.path for name, file in context.outputs.items() if file.path.is_file()},
        fractions=context.fractions,
        saved=context.saved,
    )


def _with_files(value: Any, context: LocalJobContext) -> Any:
    """The result with each output file described as the platform describes an artifact."""
    if isinstance(value, list):
        return [_with_files(part, context) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {FILE_KEY}:
        return {key: _with_files(part, context) for key, part in value.items()}
    file = context.outputs[value[FILE_KEY]]
    digest = hashlib.sha256(file.path.read_bytes()).hexdigest()
    return {
        "artifact": f"local-{digest[:16]}",
        "name": file.name,
        "media_type": file.media_type,
        "size": file.path.stat().st_size,
        "sha256": digest,
    }
