"""From JSON to the shapes, the same for all of them.

What a shape does not name stays in its `body`: a newer server may tell more than this client
knows. What it names must be of the kind it says, or the answer cannot be used.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints


class Unreadable(ValueError):
    """An answer is not what the server promises to answer."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Something the server told; `body` is all of it, as it came."""

    body: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


T = TypeVar("T", bound=Shape)


def read(kind: type[T], body: Any, *, where: str = "") -> T:
    """The shape that this JSON object holds. Raises Unreadable."""
    if not isinstance(body, dict):
        raise Unreadable(f"{where or kind.__name__} is no object")
    told: dict[str, Any] = {"body": body}
    for name, (hint, required) in _members(cast(type, kind)).items():
        if name in body:
            told[name] = _value(hint, body[name], where=f"{where}/{name}")
        elif required:
            raise Unreadable(f"{kind.__name__} has no {where}/{name}")
    return kind(**told)


@cache
def _members(kind: type) -> dict[str, tuple[Any, bool]]:
    """Each member's type, and whether it must be there."""
    hints = get_type_hints(kind)
    return {
        each.name: (
            hints[each.name],
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
        if each.name != "body"
    }


def _value(hint: Any, given: Any, *, where: str) -> Any:
    if isinstance(hint, types.UnionType):  # `X | None` is the only one there is
        return None if given is None else _value(get_args(hint)[0], given, where=where)
    if get_origin(hint) is tuple:
        if not isinstance(given, list):
            raise Unreadable(f"{where} is no list")
        each = get_args(hint)[0]
        return tuple(_value(each, one, where=f"{where}/{n}") for n, one in enumerate(given))
    if is_dataclass(hint):
        return read(cast("type[Shape]", hint), given, where=where)
    if hint is datetime:
        return _time(given, where)
    return _plain(get_origin(hint) or hint, given, where)


def _plain(kind: type, given: Any, where: str) -> Any:
    if kind is float and type(given) is int:
        return float(given)
    if not isinstance(given, kind) or (isinstance(given, bool) and kind is not bool):
        raise Unreadable(f"{where} is no {kind.__name__}")
    return given


def _time(given: Any, where: str) -> datetime:
    try:
        time = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        time = None
    if time is None or time.tzinfo is None:
        raise Unreadable(f"{where} is no time with its zone")
    return time
