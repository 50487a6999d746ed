from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.catalog.fingerprint import digest, fingerprint

CALL: dict[str, Any] = {
    "tenant_id": UUID(int=1),
    "revision_id": UUID(int=2),
    "weights_digest": "w",
    "inputs": {"a": 1, "b": [1.5, "x"]},
    "seed": 0,
}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": -0.0}, {"a": 0}),
        ({"a": 2.0**60}, {"a": 2**60}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_equal_calls_have_equal_fingerprints(one: Any, other: Any) -> None:
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": True}, {"a": 1}),
        ({"a": "1"}, {"a": 1}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": 1}, {"a": 1.5}),
    ],
)
def test_different_calls_have_different_fingerprints(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    "change",
    [
        {"tenant_id": UUID(int=9)},
        {"revision_id": UUID(int=9)},
        {"weights_digest": "v"},
        {"inputs": {"a": 1}},
        {"seed": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_everything_that_decides_an_answer_is_in_it(change: dict[str, Any]) -> None:
    assert fingerprint(**CALL) != fingerprint(**{**CALL, **change})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.floats(width=32),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES.filter(lambda value: "nan" not in str(value) and "inf" not in str(value)))
def test_any_value_has_a_fingerprint_that_survives_reordering(value: Any) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: turned(value[name]) for name in reversed(value)}
        return [turned(inner) for inner in value] if isinstance(value, list) else value

    assert digest(value) == digest(turned(value))
