"""What is called in a simulated day: sessions of agents, stage after stage, and recorded calls."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One job: what was expected of it, and the seconds it really takes."""

    estimate_s: float
    service_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Calls of one model that are sent together."""

    model: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """One agent's work; a stage begins when the one before has ended."""

    at_s: float
    stages: tuple[Stage, ...]


def recorded(path: Path) -> list[Session]:
    """Calls as JSON lines `{"at_s", "model", "service_s", "estimate_s"?}`, in any order.

    Raises ValueError naming the line that cannot be read.
    """
    sessions = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            service_s = float(row["service_s"])
            estimate_s = float(row.get("estimate_s", service_s))
            calls = (Call(estimate_s=estimate_s, service_s=service_s),)
            stage = Stage(model=str(row["model"]), calls=calls)
            sessions.append(Session(at_s=float(row["at_s"]), stages=(stage,)))
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise ValueError(f"{path}, line {number}: {wrong!r}") from wrong
    return sorted(sessions, key=lambda session: session.at_s)


def models_of(sessions: Iterable[Session]) -> set[str]:
    return {stage.model for session in sessions for stage in session.stages}
