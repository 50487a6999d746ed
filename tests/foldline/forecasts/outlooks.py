"""An outlook as a walk over 20 waiting jobs may have left it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from foldline.forecasts.outlook import Outlook, Tail
from foldline.scheduling.estimate import ServiceTimes
from foldline.scheduling.eta import Curve

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def some_outlook(**changes: Any) -> Outlook:
    curve = Curve(knots=((0.0, 0.0, 1.0), (200.0, 100.0, 150.0)), slope=0.5, scatter=1.0)
    new = {name: Tail(waiting=0, position=21) for name in ("interactive", "batch")}
    fields: dict[str, Any] = {
        "as_of": NOW,
        "waiting": 20,
        "blocked": None,
        "lost": False,
        "share": 1.0,
        "assumed_s": 5.0,
        "wall": ServiceTimes(),
        "work": ServiceTimes(),
        "curves": {"interactive": curve, "batch": curve},
        "knots": [(0, 0.0), (20, 200.0)],
        "factors": {},
        "cold": False,
        "cold_p50_s": 20.0,
        "cold_p90_s": 30.0,
        "peak_bytes": 0,
        "memory_bytes": 2**30,
        **changes,
        "tails": {**new, **changes.get("tails", {})},
    }
    return Outlook(**fields)
