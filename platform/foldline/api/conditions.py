"""When a caller wants the answer: only if it differs, or not before something happens."""

from __future__ import annotations

from django.utils.http import parse_etags

from foldline.api.views.base import wrong_parameter
from foldline.numbers import MOST_WAIT_S, whole_number


def matches(if_none_match: str | None, tag: str) -> bool:
    """Whether the caller has the answer with this `ETag` already (RFC 9110, 13.1.2): `*`, or a
    tag of the list, be it marked as weak. What is no entity tag matches nothing."""
    known = parse_etags(if_none_match or "")
    return known == ["*"] or tag in (each.removeprefix("W/") for each in known)


def wait_s(text: str | None, *, name: str = "wait") -> int:
    """The parameter `name`, whole seconds; 0 without it. Raises InvalidRequest."""
    if text is None:
        return 0
    seconds = whole_number(text, most=MOST_WAIT_S)
    if seconds is None:
        raise wrong_parameter(name, "invalid", got=text, expected=f"1 to {MOST_WAIT_S}")
    return seconds
