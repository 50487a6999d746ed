"""Exit codes by class of error; docs/client.md has the same table."""

from __future__ import annotations

from enum import IntEnum

from foldline.client.errors import BadAnswer, FoldlineError, JobFailed, TimedOut, Unreachable

_INPUT = frozenset({400, 411, 413, 415, 422})
_LIMITS = frozenset({"quota_forbids", "quota_exceeded", "repeat_failure"})


class Exit(IntEnum):
    OK = 0
    USAGE = 2
    INVALID_INPUT = 3
    KEY = 4
    NOT_FOUND = 5
    LIMIT = 6
    JOB_FAILED = 7
    PLATFORM = 8
    NOT_YET = 9
    INTERRUPTED = 130


def exit_of(error: FoldlineError) -> Exit:
    """What a script needs to know: whose turn it is to do something."""
    code, status = error.code, error.problem.status
    if isinstance(error, TimedOut) or code == "job_not_finished":
        return Exit.NOT_YET
    if isinstance(error, Unreachable | BadAnswer):
        return Exit.PLATFORM
    if code == "invalid_input":
        return Exit.INVALID_INPUT
    if isinstance(error, JobFailed) or status == 409:
        return Exit.JOB_FAILED
    if status == 429 or code in _LIMITS:
        return Exit.LIMIT
    if status in (401, 403):
        return Exit.KEY
    if status in (404, 410):
        return Exit.NOT_FOUND
    return Exit.INVALID_INPUT if status in _INPUT else Exit.PLATFORM
