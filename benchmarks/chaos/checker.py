"""Do the histories and the tables of a run agree with the promises P1 to P10?"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from benchmarks.chaos.evidence import Evidence, JobRow
from benchmarks.chaos.history import Event

TERMINAL = frozenset({"succeeded", "failed", "cancelled", "expired"})
OVERLAP_S = 0.2
OUTCOMES = ("finish", "fail", "stopped", "fenced")


@dataclass(frozen=True, kw_only=True)
class Violation:
    promise: str
    what: str
    about: str = ""


def violations(evidence: Evidence) -> list[Violation]:
    """Everything that was promised and did not hold."""
    checks = (
        *(accepted, keys, results, durability, finality),
        *(quotas, cancels, fences, bills, tokens),
    )
    return [found for check in checks for found in check(evidence)]


def accepted(evidence: Evidence) -> Iterator[Violation]:
    """P1: what was answered 202 is there, and at its end."""
    for job in sorted(_accepted(evidence)):
        if job not in evidence.jobs:
            yield Violation(promise="P1", what="an accepted job is gone", about=job)
    for row in evidence.jobs.values():
        if row.state not in TERMINAL:
            yield Violation(promise="P1", what=f"never ended: {row.state}", about=row.id)


def keys(evidence: Evidence) -> Iterator[Violation]:
    """P2: one key, one job; another payload under it is refused."""
    named: dict[str, set[str]] = defaultdict(set)
    for event in _of(evidence, "submitted"):
        if event["key"] and event["status"] in (200, 202) and not event["altered"]:
            named[event["key"]].add(event["job"])
    for row in evidence.jobs.values():
        if row.key:
            named[row.key].add(row.id)
    for key, jobs in named.items():
        if len(jobs) > 1:
            yield Violation(promise="P2", what="one key made several jobs", about=key)
    known = {row.key for row in evidence.jobs.values()}
    for event in _of(evidence, "submitted"):
        if event["altered"] and event["status"] == 202 and event["key"] in known:
            yield Violation(promise="P2", what="another payload was accepted", about=event["key"])


def results(evidence: Evidence) -> Iterator[Violation]:
    """P3: one result counts."""
    finished = Counter(event["job_id"] for event in _of(evidence, "finish"))
    for job, times in finished.items():
        if times > 1:
            yield Violation(promise="P3", what=f"{times} results counted", about=job)
    for row in evidence.jobs.values():
        told = sum(kind == "succeeded" for kind, _, _ in row.events)
        if told != (row.state == "succeeded"):
            yield Violation(promise="P3", what=f"succeeded {told} times", about=row.id)
        if sum(attempt.outcome == "succeeded" for attempt in row.attempts) > 1:
            yield Violation(promise="P3", what="two attempts succeeded", about=row.id)


def durability(evidence: Evidence) -> Iterator[Violation]:
    """P4: first the file, then `succeeded`, then the acknowledgement; and the hash is true."""
    for name, content in evidence.files.items():
        if name != content:
            yield Violation(
                promise="P4", what="a stored file is not what its name says", about=name
            )
    stored: dict[str, set[str]] = defaultdict(set)
    # By process, too: a Redis that lost its connections delivers a ticket once more.
    open_claims: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
    for event in evidence.history:
        by = event["by"]
        if event["event"] == "stored":
            stored[by].add(event["sha256"])
        elif event["event"] == "claim":
            open_claims[by, event["ticket"]].add((event["job_id"], event["attempt"]))
        elif event["event"] in OUTCOMES:
            for claims in open_claims.values():
                claims.discard((event["job_id"], event["attempt"]))
            if event["event"] == "finish":
                yield from _files_of(event, evidence, stored[by])
        elif event["event"] == "acknowledge" and open_claims[by, event["ticket"]]:
            yield Violation(
                promise="P4", what="acknowledged before the outcome", about=event["ticket"]
            )


def _files_of(event: Event, evidence: Evidence, stored: set[str]) -> Iterator[Violation]:
    row = evidence.jobs.get(event["job_id"])
    file = (row.result or {}).get("file") if row is not None else None
    if file and (file["sha256"] not in stored or file["sha256"] not in evidence.files):
        yield Violation(promise="P4", what="succeeded before its file", about=event["job_id"])


def finality(evidence: Evidence) -> Iterator[Violation]:
    """P5: nothing follows an end, and nobody has seen another one."""
    for row in evidence.jobs.values():
        ends = [index for index, (kind, _, _) in enumerate(row.events) if kind in TERMINAL]
        if ends and ends[0] != len(row.events) - 1:
            yield Violation(promise="P5", what="something followed the end", about=row.id)
    for event in _of(evidence, "seen"):
        seen, now = event["state"], evidence.jobs.get(event["job"])
        if seen in TERMINAL and now is not None and now.state != seen:
            yield Violation(promise="P5", what=f"seen {seen}, then {now.state}", about=now.id)


def quotas(evidence: Evidence) -> Iterator[Violation]:
    """P6: no more jobs run, and no more wait for their first attempt, than the tenant may have."""
    spans: dict[str, list[tuple[float, float]]] = {"waiting": [], "running": []}
    for row in evidence.jobs.values():
        for index, (kind, _, began) in enumerate(row.events):
            state = "running" if kind == "running" else "waiting" if index == 0 else ""
            if state and kind in ("queued", "running"):
                spans[state].append((began, _left(row, index)))
    for state, allowed in evidence.limits.items():
        most = _most_at_once(spans[state])
        if most > allowed:
            yield Violation(promise="P6", what=f"{most} {state} at once, {allowed} allowed")


def _left(row: JobRow, index: int) -> float:
    """When a job left the state that an event brought it into."""
    later = row.events[index + 1 :]
    moves = TERMINAL | {"queued", "running"}
    return next((at for kind, _, at in later if kind in moves), math.inf)


def _most_at_once(spans: list[tuple[float, float]]) -> int:
    """Times are taken within transactions: one that ends and one that begins right then may
    seem to overlap, for less than a transaction takes."""
    steps = [(began, 1) for began, _ in spans]
    steps += [(max(began, ended - OVERLAP_S), -1) for began, ended in spans]
    return max(accumulate(step for _, step in sorted(steps)), default=0)


def cancels(evidence: Evidence) -> Iterator[Violation]:
    """P7: no claim after a cancel."""
    for row in evidence.jobs.values():
        kinds = [kind for kind, _, _ in row.events]
        for asked in ("cancel_requested", "cancelled"):
            if asked in kinds and "running" in kinds[kinds.index(asked) :]:
                yield Violation(promise="P7", what=f"claimed after {asked}", about=row.id)


def fences(evidence: Evidence) -> Iterator[Violation]:
    """P8: attempt numbers rise, and only the newest attempt writes."""
    for row in evidence.jobs.values():
        numbers = [data["attempt"] for kind, data, _ in row.events if kind == "running"]
        if numbers != sorted(set(numbers)):
            yield Violation(promise="P8", what=f"attempts {numbers}", about=row.id)
    newest: dict[str, int] = {}
    for event in evidence.history:
        if event["event"] == "claim":
            newest[event["job_id"]] = max(newest.get(event["job_id"], 0), event["attempt"])
        # Not `fail`: it is written down a moment after the commit that lets others claim.
        elif event["event"] in ("finish", "stopped") and (
            event["attempt"] < newest.get(event["job_id"], 0)
        ):
            yield Violation(promise="P8", what="a stale attempt wrote", about=event["job_id"])


def bills(evidence: Evidence) -> Iterator[Violation]:
    """P9: a job costs what its attempts took."""
    for row in evidence.jobs.values():
        if any(attempt.ended is None for attempt in row.attempts) and row.state in TERMINAL:
            yield Violation(promise="P9", what="an attempt was left open", about=row.id)
        used = sum(attempt.gpu_seconds for attempt in row.attempts)
        if not math.isclose(row.gpu_seconds, used, abs_tol=1e-3):
            yield Violation(promise="P9", what=f"billed {row.gpu_seconds}, {used}", about=row.id)


def tokens(evidence: Evidence) -> Iterator[Violation]:
    """P10: a request, however it was answered, made no job or one."""
    made = Counter(row.token for row in evidence.jobs.values())
    for token, times in made.items():
        if times > 1:
            yield Violation(promise="P10", what=f"one call made {times} jobs", about=token)


def lost(evidence: Evidence) -> int:
    """Accepted jobs that are gone or never ended."""
    jobs = evidence.jobs
    return sum(job not in jobs or _open(jobs[job]) for job in _accepted(evidence))


def doubled(found: list[Violation]) -> int:
    """Jobs with two results, and calls with two jobs."""
    return len({each.about for each in found if each.promise in ("P2", "P3", "P10")})


def _open(row: JobRow) -> bool:
    return row.state not in TERMINAL


def _accepted(evidence: Evidence) -> set[str]:
    answered = (e for e in _of(evidence, "submitted") if e["status"] in (200, 202))
    return {event["job"] for event in answered}


def _of(evidence: Evidence, kind: str) -> Iterator[Event]:
    return (event for event in evidence.history if event["event"] == kind)
