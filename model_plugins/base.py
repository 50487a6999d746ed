"""What a model plugin is: `load` once, `infer` many times, and errors that say what to do.

A plugin is an ordinary class. It inherits nothing; it needs `load` and `infer`, and may
add any of the optional abilities below. Nothing here imports more than the standard
library, because this module is also imported inside every model's own runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

Inputs = Mapping[str, Any]
"""One job's inputs: validated against the manifest's schema, defaults filled in. A field
of format `artifact` holds the absolute path of a local, read-only copy of the file."""

Result = dict[str, Any]
"""JSON-ready answer. Files are named with `context.output(...)` and referred to by the
value it returns; the platform turns them into artifacts."""


class LoadContext(Protocol):
    """What a plugin may know while it loads."""

    @property
    def device(self) -> str:
        """`"cpu"` or `"cuda:0"`: where the weights belong."""
        ...

    @property
    def threads(self) -> int:
        """CPU threads this process may use. `torch.set_num_threads` is already called."""
        ...

    @property
    def weights(self) -> Mapping[str, Path]:
        """Weight files by the name the manifest gives them, their hashes checked."""
        ...

    def phase(self, name: str) -> None:
        """Start a named phase of loading (`"import"`, `"weights"`), timed for the operators."""
        ...


class JobContext(Protocol):
    """What a plugin may know and say while it computes one job."""

    @property
    def job_id(self) -> str: ...

    @property
    def attempt(self) -> int:
        """1 for the first try."""
        ...

    @property
    def seed(self) -> int:
        """0 <= seed < 2**63. The only source of randomness a plugin may use."""
        ...

    @property
    def scratch(self) -> Path:
        """An empty folder of this attempt; removed afterwards."""
        ...

    @property
    def cancelled(self) -> bool:
        """True once the caller no longer wants the answer. Look at it between steps."""
        ...

    def progress(self, fraction: float, *, stage: str = "", message: str = "") -> None:
        """Tell the caller how far the job is; 0 <= fraction <= 1, never going back."""
        ...

    def output(self, name: str, *, media_type: str) -> OutputFile:
        """Reserve an output file; write to `.path`, put the returned value in the result."""
        ...

    def warn(self, code: str, message: str) -> None:
        """Add a warning that is shown beside the result."""
        ...

    def save_checkpoint(self, data: bytes, *, step: int) -> None:
        """Keep what is done for the next attempt of this job, should this one be lost.

        At most 64 MB, at steps that rise; a newer one replaces the one before. Returns at
        once. Save when losing the work since the last one would hurt: every few seconds.
        """
        ...

    def resume(self) -> bytes | None:
        """What an earlier attempt of this very job saved last, whole and unchanged; else None.

        The same inputs, seed, revision and way of running them (degraded or not).
        """
        ...


@dataclass(frozen=True, kw_only=True)
class OutputFile:
    """A file a job leaves behind. Inside a result it stands for the artifact."""

    name: str
    media_type: str
    path: Path


class Plugin(Protocol):
    """The whole required interface."""

    def load(self, context: LoadContext) -> None:
        """Bring the weights onto the device. Called once per process."""

    def infer(self, inputs: Inputs, context: JobContext) -> Result:
        """Compute one job. Raise a `PluginError` for anything the caller should understand."""
        ...


@runtime_checkable
class Batches(Protocol):
    """Optional: several jobs in one call. Results must equal those of `infer` one by one."""

    def batch_key(self, inputs: Inputs) -> str:
        """Jobs with equal keys may share a call (for example: the same exact length)."""
        ...

    def infer_batch(
        self, items: Sequence[tuple[Inputs, JobContext]]
    ) -> Sequence[Result | PluginError]:
        """One answer per item, in order; a bad item does not sink the others."""
        ...


@runtime_checkable
class Degrades(Protocol):
    """Optional: a smaller way to run the same job after it ran out of memory."""

    def degrade(self, inputs: Inputs) -> Inputs | None:
        """Inputs that need less memory and give an equally valid answer, or None.

        Called by the platform before the second attempt, which then gets these inputs and
        tells its caller so by a warning. They need not fit the input schema.
        """
        ...


@runtime_checkable
class Preflights(Protocol):
    """Optional: refuse or normalise inputs in under 2 s, without weights."""

    def preflight(self, inputs: Inputs) -> tuple[Inputs, Sequence[str]]:
        """Normalised inputs and warnings; raises `InvalidInput`."""
        ...


class PluginError(Exception):
    """The model could not answer."""

    code: ClassVar[str] = "model_error"

    def __init__(self, message: str = "", **details: Any) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        self.details = details


class InvalidInput(PluginError):
    """The inputs cannot be used; the caller must change them.

    Keywords: `pointer` (JSON pointer into the inputs), `reason` (a snake_case code), `got`,
    `expected`, `hint`.
    """

    code = "invalid_input"

    def __init__(
        self,
        message: str,
        *,
        pointer: str = "",
        reason: str = "invalid",
        got: Any = None,
        expected: Any = None,
        hint: str = "",
    ) -> None:
        super().__init__(
            message, pointer=pointer, code=reason, got=got, expected=expected, hint=hint
        )


class GpuOutOfMemory(PluginError):
    """The card has too little memory for these inputs."""

    code = "gpu_oom"


class HostOutOfMemory(PluginError):
    """The machine has too little memory for these inputs."""

    code = "host_oom"


class DependencyUnavailable(PluginError):
    """Something the model needs from outside does not answer; trying later may help."""

    code = "dependency_unavailable"


class OutputInvalid(PluginError):
    """The model produced something that is no answer (NaN, missing parts, wrong shape)."""

    code = "model_output_invalid"


class JobCancelled(PluginError):
    """The plugin noticed that the job was cancelled and stopped."""

    code = "cancelled"
