from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_plugins import frames
from model_plugins.frames import FrameError

storable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
    max_leaves=20,
)


@given(value=storable)
def test_what_is_encoded_comes_back(value: object) -> None:
    data = frames.encode("done", value=value)

    assert frames.body_length(data[: frames.HEADER.size]) == len(data) - frames.HEADER.size
    assert frames.decode(data[frames.HEADER.size :]) == {"v": 1, "type": "done", "value": value}


def loop() -> list[object]:
    items: list[object] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        "\ud800",
        "a\0b",
        {"a\0": 1},
        [{"x": ("\0",)}],
        object(),
        loop(),
        {1: {2}},
    ],
    ids=repr,
)
def test_what_no_database_can_store_is_refused(value: object) -> None:
    with pytest.raises(FrameError, match="not representable"):
        frames.dump(value)


def test_a_backslash_before_u0000_is_an_ordinary_text() -> None:
    assert frames.dump("\\u0000") == b'"\\\\u0000"'


def test_a_frame_that_is_too_big_is_refused() -> None:
    with pytest.raises(FrameError, match="larger"):
        frames.encode("infer", padding="x" * frames.MAX_FRAME_BYTES)


def test_an_announced_length_beyond_the_bound_is_refused() -> None:
    with pytest.raises(FrameError, match="announced"):
        frames.body_length(b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"v":1,"type":"done","x":NaN}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "an object with a type"),
        (b'{"v":1}', "an object with a type"),
        (b'{"v":1,"type":3}', "an object with a type"),
        (b'{"v":2,"type":"done"}', "version 2"),
        (b'{"type":"done"}', "version None"),
    ],
)
def test_a_body_that_is_no_frame_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        frames.decode(body)


@given(text=st.text(), limit=st.integers(min_value=1, max_value=20))
def test_plain_text_is_storable_and_bounded(text: str, limit: int) -> None:
    plain = frames.plain_text(text, limit=limit)

    assert len(plain) <= limit
    frames.dump(plain)


@pytest.mark.parametrize("name", ["a", "design_1.pdb", "9-x.tar.gz", "a" * 128])
def test_a_plain_file_name_is_accepted(name: str) -> None:
    assert frames.FILE_NAME.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "-rf", "a/b", "a\\b", "a b", "a\n", "é", "a" * 129]
)
def test_any_other_file_name_is_refused(name: str) -> None:
    assert not frames.FILE_NAME.fullmatch(name)
