"""From what a plugin returned or raised to what the wire carries.

Everything a plugin may do wrong with its result ends here as `model_output_invalid` or
`output_too_large`, with a sentence for the plugin's author. Standard library only.
"""

from __future__ import annotations

import traceback
from typing import Any

from model_plugins.base import OutputFile, OutputInvalid, PluginError
from model_plugins.contexts import Job
from model_plugins.frames import FILE_KEY, MAX_RESULT_BYTES, FrameError, dump, plain_text

MAX_TRACEBACK_CHARS = 4000
MAX_DETAILS_BYTES = 4096
MAX_DETAILS = 20


class OutputTooLarge(PluginError):
    """The result is larger than an answer may be."""

    code = "output_too_large"


def answer(result: object, job: Job) -> dict[str, Any]:
    """The `done` item for what a plugin returned for one job."""
    if isinstance(result, PluginError):
        return failure(result, job)
    try:
        return {
            "job": job.job_id,
            "result": _checked(result),
            "files": [_existing(file) for file in job.outputs.values()],
            "warnings": job.warnings,
        }
    except PluginError as error:
        return failure(error, job)


def failure(error: Exception, job: Job) -> dict[str, Any]:
    """The `done` item for what a plugin raised for one job."""
    return {"job": job.job_id, "error": describe(error), "warnings": job.warnings}


def describe(error: Exception, *, otherwise: str = "model_error") -> dict[str, Any]:
    """An exception of model code as `{code, message, details?, traceback?}`, all bounded.

    Lack of memory is recognised however it is raised; `otherwise` is the code of the rest.
    """
    message = plain_text(error, limit=1000)
    if isinstance(error, PluginError):
        told: dict[str, Any] = {"code": plain_text(error.code, limit=64), "message": message}
        return told | _details(error.details)
    code = _memory_code(error) or otherwise
    told = {"code": code, "message": f"{type(error).__name__}: {message}"}
    if code == otherwise:
        told["traceback"] = _short_traceback(error)
    return told


def _memory_code(error: Exception) -> str | None:
    # torch is not imported here: its errors are known by their names and texts.
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return "gpu_oom"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return "host_oom"
    return None


def _details(details: dict[str, Any]) -> dict[str, Any]:
    if not details:
        return {}
    try:
        fits = len(dump(details)) <= MAX_DETAILS_BYTES
    except FrameError:
        fits = False
    if not fits:
        first = list(details.items())[:MAX_DETAILS]
        details = {key: plain_text(value, limit=200) for key, value in first}
    return {"details": details}


def _short_traceback(error: Exception) -> str:
    text = "".join(traceback.format_exception(error, limit=-12))
    return plain_text(text[-MAX_TRACEBACK_CHARS:], limit=MAX_TRACEBACK_CHARS)


def _checked(result: object) -> dict[str, Any]:
    if not isinstance(result, dict):
        raise OutputInvalid(f"a result is a dict, not {_kind(result)}")
    try:
        plain = _plain(result, at="")
        size = len(dump(plain))
    except FrameError as error:
        raise OutputInvalid(f"the result is {error}") from error
    except RecursionError as error:
        raise OutputInvalid("the result is nested too deep or holds itself") from error
    if size > MAX_RESULT_BYTES:
        raise OutputTooLarge(
            f"the result has {size} bytes of JSON, more than {MAX_RESULT_BYTES}; "
            "write large parts to a file with context.output(...)"
        )
    return plain  # type: ignore[no-any-return]  # a dict stays a dict


def _plain(value: Any, *, at: str) -> Any:
    """The value with output files replaced by references; OutputInvalid names what is no JSON."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, OutputFile):
        return {FILE_KEY: value.name}
    if isinstance(value, list | tuple):
        return [_plain(part, at=f"{at}/{index}") for index, part in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise OutputInvalid(f"a key at {at or '/'} is {_kind(key)}; keys are str")
        return {key: _plain(part, at=f"{at}/{key}") for key, part in value.items()}
    raise OutputInvalid(
        f"{at} is {_kind(value)}, which is not JSON; use plain int, float, str, list and dict"
    )


def _existing(file: OutputFile) -> dict[str, str]:
    if not file.path.is_file():
        raise OutputInvalid(f"the output file {file.name} was announced but never written")
    return {"name": file.name, "media_type": file.media_type}


def _kind(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
