"""Calls that open jobs announce: of which models, by how many jobs, and how soon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from foldline.forecasts.reading import prospect_of
from foldline.jobs.demand import announcing
from foldline.jobs.models import Job
from foldline.jobs.states import State


@dataclass(frozen=True, kw_only=True, slots=True)
class Hint:
    """Of one model: the jobs that announce a call of it, and the seconds until the first of
    them is expected to end."""

    running: int = 0
    queued: int = 0
    in_s: float


def hints(*, now: datetime) -> Mapping[str, Hint]:
    """By the model's name, whatever is behind that name."""
    found: dict[str, Hint] = {}
    for job in announcing():
        left_s = _left_s(job, now=now)
        if left_s is None:
            continue
        runs = (job.attached_to or job).state == State.RUNNING
        for model in _named(job):
            known = found.get(model, Hint(in_s=left_s))
            found[model] = replace(
                known,
                running=known.running + runs,
                queued=known.queued + (not runs),
                in_s=min(known.in_s, left_s),
            )
    return found


def _left_s(job: Job, *, now: datetime) -> float | None:
    """Seconds until it ends. Without a forecast a job that runs may end at any time, and of
    one that waits nobody can tell."""
    end = prospect_of(job, now=now).finish_p50
    if end is not None:
        return max(0.0, (end - now).total_seconds())
    return 0.0 if (job.attached_to or job).state == State.RUNNING else None


def _named(job: Job) -> set[str]:
    names = job.next_models if isinstance(job.next_models, list) else []
    return {name for name in names if isinstance(name, str)}
