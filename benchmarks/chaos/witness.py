"""`python -m benchmarks.chaos.witness MODULE …` runs a program of Foldline and writes down
what its doors to the database did. The program knows nothing of it.

With FOLDLINE_CHAOS_FENCE=off the same doors forget the fence: the control that shows that
the checker would notice.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "foldline.settings")
django.setup()

from celery import current_task  # noqa: E402 - Django is set up first
from celery.worker.request import Request  # noqa: E402

from benchmarks.chaos.history import History  # noqa: E402
from foldline.artifacts import services as artifacts  # noqa: E402
from foldline.jobs import services  # noqa: E402
from foldline.jobs.claims import Fence, Fenced  # noqa: E402
from foldline.jobs.models import Job  # noqa: E402
from foldline.jobs.states import State  # noqa: E402

HISTORY = "FOLDLINE_CHAOS_HISTORY"
FENCE = "FOLDLINE_CHAOS_FENCE"
WRITES = ("heartbeat", "progress", "finish", "fail", "stopped")
OUTCOMES = ("finish", "fail", "stopped")

Verb = Callable[..., Any]


def main(arguments: list[str]) -> None:
    if os.environ.get(FENCE) == "off":
        forget_fences()
    watch(History(Path(os.environ[HISTORY]), f"{arguments[0]}-{os.getpid()}"))
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def watch(history: History) -> None:
    """Let claims, outcomes, losses, stored files and acknowledgements be written down."""
    _replace(services, "claim", lambda verb: _claims(verb, history))
    for name in WRITES:
        _replace(services, name, partial(_writes, name=name, history=history))
    _replace(services, "lose", lambda verb: _losses(verb, history))
    _replace(artifacts, "store_file", lambda verb: _stores(verb, history))
    _replace(Request, "acknowledge", lambda verb: _acknowledgements(verb, history))


def _replace(holder: Any, name: str, by: Callable[[Verb], Verb]) -> None:
    verb = getattr(holder, name)
    setattr(holder, name, wraps(verb)(by(verb)))


def _claims(claim: Verb, history: History) -> Verb:
    def watched(**how: Any) -> Any:
        claimed = claim(**how)
        for job in claimed:
            history.write("claim", **vars(job.fence), ticket=current_task.request.id)
        return claimed

    return watched


def _writes(verb: Verb, *, name: str, history: History) -> Verb:
    """Every refusal, and the writes that end an attempt."""

    def watched(fence: Fence, **how: Any) -> Any:
        try:
            told = verb(fence, **how)
        except Fenced:
            history.write("fenced", verb=name, **vars(fence))
            raise
        if name in OUTCOMES:
            history.write(name, **vars(fence), told=told)
        return told

    return watched


def _losses(lose: Verb, history: History) -> Verb:
    def watched(fence: Fence, **how: Any) -> Any:
        outcome = lose(fence, **how)
        if outcome is not None:
            history.write("lose", **vars(fence), told=outcome)
        return outcome

    return watched


def _stores(store: Verb, history: History) -> Verb:
    def watched(**how: Any) -> Any:
        stored = store(**how)
        history.write("stored", sha256=stored.sha256)
        return stored

    return watched


def _acknowledgements(acknowledge: Verb, history: History) -> Verb:
    def watched(request: Any) -> None:
        acknowledge(request)
        history.write("acknowledge", ticket=request.id)

    return watched


def forget_fences() -> None:
    """Every write goes through as if by whoever holds the job now, whatever its state."""
    _replace(services, "sources_of", lambda _verb: lambda _target: frozenset(State))
    for name in WRITES:
        _replace(services, name, _unfenced)


def _unfenced(verb: Verb) -> Verb:
    def write(fence: Fence, **how: Any) -> Any:
        attempt, owner = Job.objects.values_list("attempt", "owner").get(id=fence.job_id)
        return verb(Fence(job_id=fence.job_id, attempt=attempt, owner=owner), **how)

    return write


if __name__ == "__main__":
    main(sys.argv[1:])
