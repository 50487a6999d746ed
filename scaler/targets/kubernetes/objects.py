"""What the API server sends: plain mappings, as JSON says them."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def annotation(thing: Object, name: str) -> str:
    """What stands there; "" where nothing does."""
    return str((thing["metadata"].get("annotations") or {}).get(name, ""))
