"""Jobs and problems in words for a person. Nothing from a server reaches a terminal raw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from foldline.client.shapes import Job, Problem

MINUTE_S, HOUR_S = 60, 3600
SOON_S = 2


def clean(text: object, *, most: int = 500) -> str:
    """A text as it may be shown: one line, without control, direction or invisible characters."""
    told = str(text)
    told = told if len(told) <= most else f"{told[: most - 1]}…"
    return "".join(c if c.isprintable() else _escaped(c) for c in told)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def pretty(document: Any) -> str:
    """JSON over many lines for a person; what a terminal might obey is escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return "\n".join(clean(line, most=len(line)) for line in text.split("\n"))


def one_line(document: Any) -> str:
    """JSON on one line, ASCII only, for a program."""
    return json.dumps(document, separators=(",", ":"))


def short(job_id: str) -> str:
    """The end of an id: the beginning of ids made together is the same."""
    return clean(job_id[-8:])


def state_of(job: Job, now: datetime) -> str:
    """Such as "queued, place 3, start in 40-90 s, model loading"."""
    if job.cancelling:
        return "is being cancelled"
    if job.state == "queued":
        return ", ".join(_queued(job, now))
    if job.state == "running":
        return ", ".join(_running(job, now))
    return clean(job.state)


def _queued(job: Job, now: datetime) -> Iterator[str]:
    yield "queued"
    if job.queue.position is not None:
        yield "next" if job.queue.position == 1 else f"place {job.queue.position}"
    band = span(job.eta.start_p50, job.eta.start_p90, now)
    if band:
        yield f"start {band}"
    if job.queue.blocked_reason:
        yield clean(job.queue.blocked_reason.replace("_", " "), most=40)


def _running(job: Job, now: datetime) -> Iterator[str]:
    stage = clean(job.progress.stage, most=40) if job.progress else ""
    yield stage or "running"
    if job.progress and job.progress.message:
        yield clean(job.progress.message, most=60)
    band = span(job.eta.finish_p50, job.eta.finish_p90, now)
    if band:
        yield f"done {band}"


def span(p50: datetime | None, p90: datetime | None, now: datetime) -> str:
    """Such as "in 40-90 s": as likely before as after the first, nine of ten before the second."""
    if p50 is None:
        return ""
    least = max(0.0, (p50 - now).total_seconds())
    most = max(least, (p90 - now).total_seconds()) if p90 else least
    if most < SOON_S:
        return "any moment"
    unit, name = _unit(most)
    low, high = round(least / unit), round(most / unit)
    return f"in {low}-{high} {name}" if low != high else f"in {high} {name}"


def _unit(seconds: float) -> tuple[int, str]:
    if seconds < 2 * MINUTE_S:
        return 1, "s"
    return (MINUTE_S, "min") if seconds < 2 * HOUR_S else (HOUR_S, "h")


def problem_lines(problem: Problem) -> Iterator[str]:
    """What is wrong, where, and what to do."""
    yield clean(" ".join(filter(None, (problem.detail or problem.title, problem.suggested_action))))
    for found in problem.errors:
        got = f", got {clean(found.got, most=80)}" if found.got else ""
        expected = f", expected {clean(found.expected, most=200)}" if found.expected else ""
        hint = f". {clean(found.hint, most=300)}" if found.hint else ""
        yield f"  {clean(found.pointer)}: {clean(found.code)}{got}{expected}{hint}"
    for other in problem.alternatives:
        yield f"  Instead: {clean(other.model)} ({clean(other.why)})"
    if problem.request_id and problem.fault == "platform":
        yield f"  Request {clean(problem.request_id)}"
