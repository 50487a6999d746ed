"""Checks on the tables of a plugin's TOML files: one rule per field, one sentence per mistake."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_TOML_BYTES = 64 * 1024

Check = Callable[[Any], str | None]
"""Takes a value; returns what it should have been, or None when it is fine."""


class ManifestError(Exception):
    """A plugin's folder does not say what it must. The text is one sentence for a person."""

    def __init__(self, message: str, *, file: Path | str = "", key: str = "") -> None:
        super().__init__(message)
        self.file = str(file)
        self.key = key


@dataclass(frozen=True, kw_only=True)
class Field:
    """One key of a table: how to judge its value, and what stands for it when absent."""

    check: Check
    required: bool = True
    default: Any = None


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file of at most 64 KiB."""
    if not path.is_file():
        raise ManifestError(f"{path} is missing.", file=path)
    body = path.read_bytes()
    if len(body) > MAX_TOML_BYTES:
        raise ManifestError(
            f"{path} has {len(body)} bytes; at most {MAX_TOML_BYTES} are read.", file=path
        )
    try:
        return tomllib.loads(body.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ManifestError(f"{path} is not readable as TOML: {error}.", file=path) from error


def checked(table: Any, fields: Mapping[str, Field], *, where: str, file: Path) -> dict[str, Any]:
    """The table's values with defaults filled in; unknown keys and wrong values are refused.

    `where` is the table's name, empty for the top level of the file.
    """
    if not isinstance(table, dict):
        raise ManifestError(f"{file} needs a table [{where}].", file=file, key=where)
    for key in table:
        if key not in fields:
            raise ManifestError(
                f"{file} has an unknown key `{_full(where, key)}`; known are {', '.join(fields)}.",
                file=file,
                key=_full(where, key),
            )
    return {key: _value(table, key, field, where=where, file=file) for key, field in fields.items()}


def _full(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _value(table: Mapping[str, Any], key: str, field: Field, *, where: str, file: Path) -> Any:
    name = _full(where, key)
    if key not in table:
        if field.required:
            raise ManifestError(f"{file} does not say `{name}`.", file=file, key=name)
        return field.default
    expected = field.check(table[key])
    if expected is not None:
        raise ManifestError(
            f"{file}: `{name}` is {_shown(table[key])} but must be {expected}.",
            file=file,
            key=name,
        )
    return table[key]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def text(most: int) -> Check:
    """A text of 1 to `most` characters."""

    def check(value: Any) -> str | None:
        fine = isinstance(value, str) and value.strip() != "" and len(value) <= most
        return None if fine else f"a text of 1 to {most} characters"

    return check


def matching(pattern: re.Pattern[str], meaning: str) -> Check:
    """A text that matches the whole pattern; `meaning` says so in words."""

    def check(value: Any) -> str | None:
        return None if isinstance(value, str) and pattern.fullmatch(value) else meaning

    return check


a_name = matching(
    re.compile(r"[a-z][a-z0-9_]{0,47}"),
    "1 to 48 lower-case letters, digits and `_`, starting with a letter",
)


def one_of(*choices: str) -> Check:
    """One of a few words."""

    def check(value: Any) -> str | None:
        fine = isinstance(value, str) and value in choices
        return None if fine else f"one of {', '.join(choices)}"

    return check


def yes_or_no(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def whole(least: int, most: int) -> Check:
    """A whole number; true and 1.0 are none."""

    def check(value: Any) -> str | None:
        fine = type(value) is int and least <= value <= most
        return None if fine else f"a whole number from {least} to {most}"

    return check


def list_of(item: Check) -> Check:
    """A list whose every item passes `item`."""

    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return "a list"
        expected = next((e for e in map(item, value) if e is not None), None)
        return None if expected is None else f"a list in which each item is {expected}"

    return check


def relative_path(value: Any) -> str | None:
    """A path that stays inside its package: relative, without `..`."""
    fine = (
        isinstance(value, str)
        and 0 < len(value) <= 200
        and not re.search(r"[\\\x00-\x1f:]", value)
        and all(part not in ("", ".", "..") for part in value.split("/"))
    )
    return None if fine else "a relative path without `..`"
