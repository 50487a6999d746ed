"""Strict JSON: what stays ambiguous or cannot be stored is refused, with its place.

An ordinary body takes one pass through the standard library's scanner. Only when its bytes
hold something unusual is it looked at a second time, value by value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import IO, Any, NoReturn

from django.conf import settings
from django.http import HttpRequest
from rest_framework.parsers import BaseParser

from foldline.errors import (
    BodyTooLarge,
    InvalidJSON,
    LengthRequired,
    UnsupportedMediaType,
    finding,
    pointer,
)

MAX_DEPTH = 32
LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**64 - 1

# Escapes may hide NUL and lone surrogates; long digits and exponents, numbers out of range.
_UNUSUAL_ESCAPE = b"\\u"
_UNUSUAL_NUMBER = re.compile(rb"\d(?:[eE]|\d{18})")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.S)
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.S)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

Path = tuple[str | int, ...]


class _Odd(Exception):
    """The fast pass met a duplicate key or a constant that is no JSON."""


class _Pairs(list[tuple[str, Any]]):
    """An object with its duplicates still in it."""


class _NoNumber(str):
    """NaN, Infinity or an integer too long to be read, as it was written."""


def _fast_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise _Odd
    return table


def _fast_constant(_name: str) -> NoReturn:
    raise _Odd


def _careful_integer(digits: str) -> int | _NoNumber:
    return int(digits) if len(digits) <= 20 else _NoNumber(digits)


_fast = json.JSONDecoder(object_pairs_hook=_fast_object, parse_constant=_fast_constant)
_careful = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_constant=_NoNumber, parse_int=_careful_integer
)


def json_body(request: HttpRequest) -> dict[str, Any]:
    """The JSON object a request carries.

    Raises UnsupportedMediaType, LengthRequired, BodyTooLarge, InvalidJSON. A compressed body is
    never unpacked.
    """
    if request.META.get("HTTP_CONTENT_ENCODING"):
        raise UnsupportedMediaType("Compressed bodies are not read.")
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if request.content_type != "application/json" or charset not in ("utf-8", "utf8"):
        raise UnsupportedMediaType
    if announced_bytes(request) > settings.MAX_BODY_BYTES:
        raise BodyTooLarge(f"A JSON body has at most {settings.MAX_BODY_BYTES} bytes.")
    return read_object(request.body)


def announced_bytes(request: HttpRequest) -> int:
    """The body's length as its sender says. Raises LengthRequired: WSGI reads nothing without."""
    announced = request.META.get("CONTENT_LENGTH") or ""
    if not announced.isdigit():
        raise LengthRequired
    return int(announced)


def read_object(body: bytes) -> dict[str, Any]:
    """The object in a body, at most 32 deep. Raises InvalidJSON with a pointer to the place."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InvalidJSON(f"The body is not UTF-8 (byte {error.start}).") from error
    if text.startswith("\ufeff"):
        raise InvalidJSON("The body begins with a byte order mark.")
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(body, text)
    if _UNUSUAL_ESCAPE in body or _UNUSUAL_NUMBER.search(body):
        _check_values(text)
    try:
        value = _decoded(_fast, text)
    except _Odd:
        _check_values(text)
        raise
    if not isinstance(value, dict):
        _refuse((), "not_an_object", got=value, expected="a JSON object")
    return value


def _decoded(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidJSON(
            f"The body is not JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from error


def _check_values(text: str) -> None:
    """Look at every key and value; raises InvalidJSON for the first that is none."""
    waiting: list[tuple[Path, Any]] = [((), _decoded(_careful, text))]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, _Pairs):
            _check_keys(path, value)
            waiting += [((*path, key), inner) for key, inner in value]
        elif isinstance(value, list):
            waiting += [((*path, index), inner) for index, inner in enumerate(value)]
        elif isinstance(value, str):
            _check_text(path, value)
        elif _out_of_range(value):
            _refuse(path, "number_out_of_range", got=str(value)[:100])


def _check_keys(path: Path, pairs: _Pairs) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        _check_text((*path, key), key)
        if key in seen:
            _refuse((*path, key), "duplicate_key", got=key, expected="each key once")
        seen.add(key)


def _check_text(path: Path, text: str) -> None:
    if isinstance(text, _NoNumber):
        code = "not_a_number" if text.lstrip("-")[0] in "NI" else "number_out_of_range"
        _refuse(path, code, got=text)
    if "\x00" in text:
        _refuse(path, "nul_character", got=text)
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(path, "lone_surrogate", expected="whole Unicode characters")


def _out_of_range(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int) and not LEAST_INTEGER <= value <= MOST_INTEGER


def _check_depth(body: bytes, text: str) -> None:
    """Refuse what is nested too deep before any recursive reader sees it."""
    brackets = _STRING.sub(b"", body).translate(None, delete=_NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    if not brackets:
        return
    unclosed: list[str] = []
    for token in _STRING_OR_BRACKET.finditer(text):
        character = text[token.start()]
        if character in "[{":
            unclosed.append("]" if character == "[" else "}")
        elif character in "]}" and unclosed:
            unclosed.pop()
        if len(unclosed) > MAX_DEPTH:
            _refuse(
                _place_of_end(text[: token.start()], unclosed[:-1]),
                "too_deep",
                expected=f"at most {MAX_DEPTH} levels",
            )


def _place_of_end(head: str, unclosed: list[str]) -> Path:
    """The path to where a text breaks off, found by closing it there and reading it."""
    value = _decoded(_careful, f"{head}null{''.join(reversed(unclosed))}")
    path: Path = ()
    while isinstance(value, list) and value:
        step, value = value[-1] if isinstance(value, _Pairs) else (len(value) - 1, value[-1])
        path = (*path, step)
    return path


def _refuse(path: Path, code: str, *, got: object = "", expected: str = "") -> NoReturn:
    place = pointer(*path).encode(errors="replace").decode()
    raise InvalidJSON(
        f"The body holds something that is not taken: {code.replace('_', ' ')}.",
        errors=[finding(place, code, got=got, expected=expected)],
    )


class StrictJSONParser(BaseParser):
    """The same reading for views that use DRF's `request.data`."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        read: Callable[[int], bytes] = stream.read
        body = read(settings.MAX_BODY_BYTES + 1)
        if len(body) > settings.MAX_BODY_BYTES:
            raise BodyTooLarge
        return read_object(body)
