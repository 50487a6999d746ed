from __future__ import annotations

import contextlib
import gzip
import io
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.api.parsing import MAX_DEPTH, StrictJSONParser, read_object
from foldline.errors import BodyTooLarge, InvalidJSON


def nested(levels: int, *, kind: str = "list") -> bytes:
    opening, closing = ("[", "]") if kind == "list" else ('{"a":', "}")
    inner = "1" if kind == "object" else ""
    return f'{{"inputs":{opening * levels}{inner}{closing * levels}}}'.encode()


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        (rb'{"inputs":{"s":"a\u0000b"}}', "/inputs/s", "nul_character"),
        (rb'{"inputs":{"a\u0000":1}}', "/inputs/a", "nul_character"),
        (rb'{"inputs":{"s":"\ud800"}}', "/inputs/s", "lone_surrogate"),
        (rb'{"inputs":["x","\udc00\ud800"]}', "/inputs/1", "lone_surrogate"),
        (rb'{"\ud800":1}', "/?", "lone_surrogate"),
        (b'{"inputs":{"n":NaN}}', "/inputs/n", "not_a_number"),
        (b'{"inputs":{"n":-Infinity}}', "/inputs/n", "not_a_number"),
        (b'{"inputs":{"n":1e400}}', "/inputs/n", "number_out_of_range"),
        (b'{"inputs":{"n":-1E999}}', "/inputs/n", "number_out_of_range"),
        (b'{"inputs":{"n":18446744073709551616}}', "/inputs/n", "number_out_of_range"),
        (b'{"inputs":{"n":' + b"9" * 5000 + b"}}", "/inputs/n", "number_out_of_range"),
        (b'{"a":1,"a":1}', "/a", "duplicate_key"),
        (b'{"inputs":{"x":[{"k":1,"k":2}]}}', "/inputs/x/0/k", "duplicate_key"),
        (nested(8000), "/inputs" + "/0" * 31, "too_deep"),
        (nested(8000, kind="object"), "/inputs" + "/a" * 31, "too_deep"),
        (b'{"x":[[],[1,' + b"[" * 40, "/x/1/1" + "/0" * 29, "too_deep"),
        (b"[]", "", "not_an_object"),
        (b'"text"', "", "not_an_object"),
        (b"null", "", "not_an_object"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_hostile_json_is_refused_with_its_place(body: bytes, pointer: str, code: str) -> None:
    with pytest.raises(InvalidJSON) as caught:
        read_object(body)
    (found,) = caught.value.errors
    assert (found["pointer"], found["code"]) == (pointer, code)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{'a': 1}", "line 1, column 2"),
        (b'{"a":1}x', "not JSON"),
        (b'{"a":"\x00"}', "not JSON"),
        (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
        (b'{"a":"\xff"}', "not UTF-8 (byte 6)"),
        (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        (gzip.compress(b'{"a":1}'), "not UTF-8"),
        (b"[" * 100_000, "not taken"),
        (b"]" * 100_000 + b"[" * 40, "not JSON"),
        (b'{"a":"' + b"[" * 100, "not JSON"),
        (rb'{"a":"\u12"}', "not JSON"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_json_is_said_in_a_sentence(body: bytes, told: str) -> None:
    with pytest.raises(InvalidJSON) as caught:
        read_object(body)
    assert told in caught.value.message


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": "\u00e9\U0001f600 \\u0000 [[[["},
        {"seed": 2**63, "n": -(2**63), "m": 2**64 - 1, "x": 1e300, "d": "1234567890123456789"},
        {"brackets in text": "[{" * 1000},
        {"wide": [[]] * 1000},
        {"deep": json.loads("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))},
        {"quotes": '"\\"' * 50 + "[" * 50},
    ],
    ids=lambda value: str(value)[:20],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_unusual_but_sound_json_is_read(value: dict[str, Any], ascii_only: bool) -> None:  # noqa: FBT001 - a parameter
    assert read_object(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[' + b"[]," * 300_000 + b"[]]}",
        b'{"a":"' + rb"\"" * 500_000,
        b'{"a":"' + rb"\"[" * 300_000 + b'"}',
        b'{"a":' + b"[" * 33 + b'"' + rb"\\" * 500_000,
        rb'{"a":["' + rb'\u0041","' * 100_000 + b'"]}',
    ],
    ids=["wide", "unclosed text", "escaped quotes", "deep and unclosed", "escapes"],
)
def test_a_megabyte_made_to_be_slow_is_answered_soon(body: bytes) -> None:
    began = time.process_time()
    with contextlib.suppress(InvalidJSON):
        read_object(body)
    assert time.process_time() - began < 3


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text().filter(lambda text: "\x00" not in text),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text().filter(lambda text: "\x00" not in text), inner)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text("abc"), JSON), st.booleans())
def test_what_was_written_is_read_back(value: dict[str, Any], ascii_only: bool) -> None:  # noqa: FBT001 - drawn
    assert read_object(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary() | st.text('{}[]":,\\u0dDcC8123eEnNaI tru', max_size=200).map(str.encode))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    with contextlib.suppress(InvalidJSON):
        assert isinstance(read_object(body), dict)


def test_views_that_use_drfs_parser_read_as_strictly() -> None:
    parser = StrictJSONParser()
    assert parser.parse(io.BytesIO(b'{"a":1}')) == {"a": 1}
    with pytest.raises(InvalidJSON):
        parser.parse(io.BytesIO(b'{"a":1,"a":2}'))
    with pytest.raises(BodyTooLarge):
        parser.parse(io.BytesIO(b" " * (2**20 + 1)))
