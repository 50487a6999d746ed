from __future__ import annotations

import pytest

from foldline import fresh
from foldline.fresh import Fresh


def test_a_value_is_looked_up_once_while_it_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    answers = iter(range(10))
    table: Fresh[str, int] = Fresh()
    assert [table.get("a", lambda: next(answers)) for _ in range(3)] == [0, 0, 0]
    now += fresh.KEEP_S
    assert table.get("a", lambda: next(answers)) == 1
    table.clear()
    assert table.get("a", lambda: next(answers)) == 2


def test_a_failed_look_up_is_kept_by_nobody() -> None:
    table: Fresh[str, int] = Fresh()
    with pytest.raises(ZeroDivisionError):
        table.get("a", lambda: 1 // 0)
    assert table.get("a", lambda: 7) == 7


def test_the_table_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "MAX_KEPT", 3)
    table: Fresh[int, int] = Fresh()
    for key in range(10):
        table.get(key, lambda key=key: key)  # type: ignore[misc]  # a default binds the value
    assert len(table._kept) <= 3
