"""What the API server sends: plain mappings, as JSON says them."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def annotation(thing: Object, name: str) -> str:
    """What stands there; "" where nothing does."""
    return str((thing["metadata"].get("annotations") or {}).get(name, ""))


def has_ended(job: Object) -> bool:
    """Whether a Job is over. One that Kueue suspends, or did, has a condition, too."""
    conditions = job.get("status", {}).get("conditions") or []
    return any(
        each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions
    )
