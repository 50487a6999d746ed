"""A short name for the way a job failed: equal failures have equal digests. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

DIGEST_CHARACTERS = 12
_FRAME = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.M)
_KIND = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?::|$)", re.M)
_VARYING = re.compile(r"0x[0-9a-f]+|\d+", re.I)


def failure_digest(error: Mapping[str, Any]) -> str:
    """The digest of a job's error (`foldline.errors.job_error`).

    With a traceback: where it was raised and what kind it was, not what the message says,
    which holds sizes and names of this one job. Without: the code, and the message without
    its numbers. A poison job's is that of its last cause.
    """
    details = error.get("details", {})
    if "cause" in details:
        return failure_digest(details["cause"])
    text = str(details.get("traceback", ""))
    frames = list(_FRAME.finditer(text))
    if frames:
        kind = _KIND.search(text, frames[-1].end())
        parts = [*map(_place, frames), kind["kind"] if kind else ""]
    else:
        parts = [_VARYING.sub("#", str(error.get("detail", "")))]
    told = "\n".join([str(error["code"]), *parts])
    return hashlib.sha256(told.encode()).hexdigest()[:DIGEST_CHARACTERS]


def _place(frame: re.Match[str]) -> str:
    """File, line and function. The folders above differ between machines."""
    file = "/".join(frame["file"].split("/")[-2:])
    return f"{file}:{frame['line']}:{frame['function']}"


def with_digest(error: Mapping[str, Any]) -> dict[str, Any]:
    """The error with its digest among its details, where it can be searched for."""
    details = {**error.get("details", {}), "digest": failure_digest(error)}
    return {**error, "details": details}
