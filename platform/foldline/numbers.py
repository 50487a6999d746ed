"""Whole numbers that callers write in a query; the gateway's door and the API read them alike."""

from __future__ import annotations

MOST_WAIT_S = 50
"""Nothing blocks longer."""


def whole_number(text: str, *, most: int) -> int | None:
    """1 to `most`, which has four digits at most; None for anything else. Only ASCII, and no more
    digits than those: a longer text would be slow to read, or hide a large number behind zeros."""
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        return None
    return int(text) if 1 <= int(text) <= most else None
