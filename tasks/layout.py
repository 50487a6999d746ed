"""A claimed job as the plugin gets it: its files on disk, its inputs naming them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foldline.artifacts import services as artifacts
from foldline.jobs.claims import ClaimedJob
from tasks import checkpoints
from tasks.messages import Item


@dataclass(frozen=True, kw_only=True)
class Laid:
    """An item, and what the caller should know of how it was prepared."""

    item: Item
    warnings: list[dict[str, str]]


def lay_out(job: ClaimedJob, scratch: Path) -> Laid:
    """Make the job's folder below `scratch`. Raises OSError and errors.Storage."""
    folder = scratch / str(job.fence.job_id)
    for name in ("inputs", "work", "checkpoints"):
        (folder / name).mkdir(parents=True)
    warnings = checkpoints.lay_out(job, folder / "checkpoints")
    item = Item(
        job=str(job.fence.job_id),
        attempt=job.fence.attempt,
        inputs=_inputs(job, folder / "inputs"),
        seed=job.seed,
        scratch=folder / "work",
        checkpoints=folder / "checkpoints",
        ran_out=vars(job.ran_out) if job.ran_out else None,
    )
    return Laid(item=item, warnings=warnings)


def _inputs(job: ClaimedJob, folder: Path) -> dict[str, Any]:
    inputs: dict[str, Any] = dict(job.inputs)
    for number, file in enumerate(job.files):
        path = folder / f"{number}{Path(file.name).suffix}"
        artifacts.materialise(tenant_id=job.tenant_id, sha256=file.sha256, target=path)
        inputs = _placed(inputs, file.pointer, str(path))
    return inputs


def _placed(value: Any, pointer: str, new: str) -> Any:
    """A copy of `value` with `new` at a JSON pointer (RFC 6901)."""
    if not pointer:
        return new
    step, _, rest = pointer[1:].partition("/")
    step = step.replace("~1", "/").replace("~0", "~")
    rest = f"/{rest}" if rest else ""
    if isinstance(value, list):
        return [
            _placed(item, rest, new) if str(index) == step else item
            for index, item in enumerate(value)
        ]
    return {**value, step: _placed(value[step], rest, new)}
