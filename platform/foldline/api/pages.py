"""Pages of a list that is newest first: where one begins and how many rows it has."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from foldline.api.views.base import wrong_parameter
from foldline.numbers import whole_number

MOST_ROWS = 100
USUAL_ROWS = 50


class Row(Protocol):
    id: UUID


def page_size(asked: Mapping[str, str]) -> int:
    """The parameter `limit`. Raises InvalidRequest."""
    text = asked.get("limit")
    if text is None:
        return USUAL_ROWS
    rows = whole_number(text, most=MOST_ROWS)
    if rows is None:
        raise wrong_parameter("limit", "invalid", got=text, expected=f"1 to {MOST_ROWS}")
    return rows


def page_start(asked: Mapping[str, str]) -> UUID | None:
    """The row before the page, from the parameter `cursor`. Raises InvalidRequest."""
    cursor = asked.get("cursor")
    if cursor is None:
        return None
    try:
        row_id = UUID(bytes=urlsafe_b64decode(f"{cursor}=="))
    except ValueError:
        row_id = None
    if row_id is None or _cursor(row_id) != cursor:  # the decoder passes over what is no letter
        raise wrong_parameter(
            "cursor", "invalid", got=cursor, expected="`next_cursor` of the page before"
        )
    return row_id


def next_cursor(found: Sequence[Row], *, limit: int) -> str | None:
    """What leads to the next page; None when `found`, looked for with one more, is the last."""
    if len(found) <= limit:
        return None
    return _cursor(found[limit - 1].id)


def _cursor(row_id: UUID) -> str:
    return urlsafe_b64encode(row_id.bytes).decode().rstrip("=")
