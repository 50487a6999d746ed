"""What somebody changed by hand in an object that Foldline wrote."""

from __future__ import annotations

from typing import Any

from kubernetes.utils import parse_quantity

QUANTITIES = {"cpu", "memory", "sizeLimit"}


def edits(written: Any, found: Any, *, path: str = "") -> list[str]:
    """Paths at which `found` differs from what was written.

    The server adds defaults, so what was not written does not count, except in a list: there
    more items are a change. Quantities are compared by value, since the server spells them anew.
    """
    if isinstance(written, dict) and isinstance(found, dict):
        return [
            change
            for name, value in written.items()
            for change in edits(value, found.get(name), path=f"{path}.{name}" if path else name)
        ]
    if isinstance(written, list) and isinstance(found, list) and len(written) == len(found):
        return [
            change
            for number, (one, other) in enumerate(zip(written, found, strict=True))
            for change in edits(one, other, path=f"{path}[{number}]")
        ]
    return [] if _same(written, found, path=path) else [path]


def _same(written: Any, found: Any, *, path: str) -> bool:
    # The server may leave out what is empty.
    if written == found or (written in ({}, []) and found is None):
        return True
    if path.rpartition(".")[2] not in QUANTITIES:
        return False
    try:
        return bool(parse_quantity(written) == parse_quantity(found))
    except ValueError:
        return False
