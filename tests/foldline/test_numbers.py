from __future__ import annotations

import pytest

from foldline.numbers import whole_number


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("50", 50), ("007", 7)])
def test_a_whole_number_is_read(text: str, number: int) -> None:
    assert whole_number(text, most=50) == number


@pytest.mark.parametrize(
    "text", ["", "0", "51", "-1", "+1", "1.0", "1e1", " 1", "1\n", "٣", "²", "0050999999", "9" * 99]
)
def test_anything_else_is_none(text: str) -> None:
    assert whole_number(text, most=50) is None
