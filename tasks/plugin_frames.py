"""The frames a plugin host sends, and what it makes of the frames it gets.

Everything that arrives is checked as if an enemy had written it: what comes out of here can
be stored and shown.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model_plugins.frames import (
    FILE_KEY,
    FILE_NAME,
    MAX_RESULT_BYTES,
    Frame,
    FrameError,
    dump,
    encode,
    plain_text,
)
from tasks.messages import Answer, Item, Loaded, OutputFile, PluginSpec, Progress, Saved

ERROR_CODES = frozenset(
    {
        "invalid_input",
        "gpu_oom",
        "host_oom",
        "dependency_unavailable",
        "model_output_invalid",
        "output_too_large",
        "model_error",
        "cancelled",
    }
)
"""What a job may fail with by its plugin's word. Any other code becomes `model_error`, so that
no plugin can say `worker_lost` and have its job tried again for ever."""
START_CODES = ERROR_CODES | {"load_failed", "weights_mismatch"}
MAX_DETAILS_BYTES = 8192
MAX_STEP = 2**53


class WrongJobs(FrameError):
    """Answers for other jobs than those asked: nobody knows what this process is doing."""


def load_frame(spec: PluginSpec) -> bytes:
    return encode(
        "load",
        plugin={"name": spec.name, "folder": str(spec.folder), "entry": spec.entry},
        device=spec.device,
        threads=spec.threads,
        weights=[dict(weight) for weight in spec.weights],
        limits={
            "open_files": spec.open_files,
            "address_space_bytes": spec.address_space_bytes,
        },
    )


def infer_frame(call: int, items: Sequence[Item]) -> bytes:
    """Raises FrameError when the inputs are no storable JSON or too big."""
    told = [
        {
            "job": item.job,
            "attempt": item.attempt,
            "inputs": item.inputs,
            "seed": item.seed,
            "scratch": str(item.scratch),
            "checkpoints": str(item.checkpoints),
            "ran_out": item.ran_out,
        }
        for item in items
    ]
    return encode("infer", call=call, items=told)


def read_loaded(frame: Frame, *, seconds: float) -> Loaded:
    phases = frame.get("phases")
    if not isinstance(phases, dict):
        raise FrameError("`ready` without phases")
    known = {plain_text(name, limit=48): _number(spent) for name, spent in phases.items()}
    known["start_process"] = round(max(0.0, seconds - sum(known.values())), 4)
    return Loaded(
        seconds=round(seconds, 4),
        phases=known,
        device=plain_text(frame.get("device"), limit=48),
        peak_rss_bytes=read_peak_rss(frame),
        peak_gpu_bytes=read_peak_gpu(frame),
    )


def read_peak_rss(frame: Frame) -> int:
    return int(_number(frame.get("peak_rss_bytes")))


def read_peak_gpu(frame: Frame) -> int:
    return int(_number(frame.get("peak_gpu_bytes")))


def read_progress(frame: Frame) -> tuple[str, Progress]:
    return plain_text(frame.get("job"), limit=200), Progress(
        fraction=min(1.0, max(0.0, _number(frame.get("fraction")))),
        stage=plain_text(frame.get("stage", ""), limit=64),
        message=plain_text(frame.get("message", ""), limit=500),
    )


def read_checkpoint(frame: Frame, items: Sequence[Item]) -> Saved | None:
    """None when it names no job of this call, no step or no proper file."""
    item = next((item for item in items if item.job == frame.get("job")), None)
    step, name = frame.get("step"), frame.get("file")
    if item is None or type(step) is not int or not 0 <= step < MAX_STEP:
        return None
    if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
        return None
    return Saved(job=item.job, step=step, path=item.checkpoints / name)


def read_answers(frame: Frame, items: Sequence[Item]) -> list[Answer]:
    """One answer per item, in order. Raises WrongJobs."""
    told = frame.get("items")
    if not isinstance(told, list) or [_job_of(part) for part in told] != [i.job for i in items]:
        raise WrongJobs("the answers do not belong to the jobs that were asked")
    return [_read_answer(part, item) for part, item in zip(told, items, strict=True)]


def refused(job: str, message: str, *, code: str = "model_output_invalid") -> Answer:
    return Answer(job=job, error={"code": code, "message": message})


def _read_answer(told: dict[str, Any], item: Item) -> Answer:
    warnings = tuple(_warning(entry) for entry in _list(told, "warnings")[:20])
    if "error" in told:
        return Answer(job=item.job, error=read_error(told["error"]), warnings=warnings)
    result = told.get("result")
    if not isinstance(result, dict):
        return refused(item.job, "the result is no JSON object")
    try:
        body = dump(result)
        files = tuple(_output(entry, item.scratch) for entry in _list(told, "files"))
    except FrameError as error:
        return refused(item.job, str(error))
    if len(body) > MAX_RESULT_BYTES:
        message = f"the result has {len(body)} bytes of JSON, more than {MAX_RESULT_BYTES}"
        return refused(item.job, message, code="output_too_large")
    if f'"{FILE_KEY}"'.encode() in body and not _references(result) <= {f.name for f in files}:
        return refused(item.job, "the result refers to an output file that was never announced")
    return Answer(job=item.job, result=result, files=files, warnings=warnings)


def read_error(
    told: object, *, codes: frozenset[str] = ERROR_CODES, otherwise: str = "model_error"
) -> dict[str, Any]:
    """`{code, message, pointer?, details?, traceback?}`; a code not in `codes` is `otherwise`."""
    if not isinstance(told, dict):
        told = {}
    code = told.get("code")
    error: dict[str, Any] = {
        "code": code if isinstance(code, str) and code in codes else otherwise,
        "message": plain_text(told.get("message", ""), limit=1000),
    }
    details = told.get("details")
    if isinstance(details, dict):
        details = _small(details)
        pointer = details.get("pointer")
        if isinstance(pointer, str):
            error["pointer"] = pointer
        error["details"] = details
    if "traceback" in told:
        error["traceback"] = plain_text(told["traceback"], limit=4000)
    return error


def _small(details: dict[str, Any]) -> dict[str, Any]:
    try:
        if len(dump(details)) <= MAX_DETAILS_BYTES:
            return details
    except FrameError as error:
        return {"dropped": str(error)}
    return {"dropped": "the details were too large"}


def _output(told: object, scratch: Path) -> OutputFile:
    name = told.get("name") if isinstance(told, dict) else None
    if not isinstance(told, dict) or not isinstance(name, str) or not FILE_NAME.fullmatch(name):
        raise FrameError("an output file has no proper name")
    path = scratch / name
    try:
        found = os.lstat(path)
    except OSError as error:
        raise FrameError(f"the output file {name} cannot be read: {error.strerror}") from error
    # A link could hand out any file that the worker can read.
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise FrameError(f"the output file {name} is a link or no regular file")
    media_type = plain_text(told.get("media_type"), limit=121)
    return OutputFile(name=name, media_type=media_type, path=path)


def _references(value: object) -> set[str]:
    found: set[str] = set()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if FILE_KEY in part:
                found.add(str(part[FILE_KEY]))
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return found


def _job_of(told: object) -> object:
    return told.get("job") if isinstance(told, dict) else None


def _list(told: dict[str, Any], key: str) -> list[Any]:
    value = told.get(key, [])
    return value if isinstance(value, list) else []


def _warning(told: object) -> dict[str, str]:
    entry = told if isinstance(told, dict) else {}
    return {
        "code": plain_text(entry.get("code", "warning"), limit=64),
        "message": plain_text(entry.get("message", ""), limit=500),
    }


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    if abs(value) > 1e18 or math.isnan(value):
        return 0.0
    return float(value)
