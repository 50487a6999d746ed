from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from foldline.ids import uuid7
from foldline.scheduling.fairness import Head, next_job

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def head() -> Head:
    return Head(
        job_id=uuid7(), attempt=0, tenant_id=uuid7(), priority="interactive", estimate_gpu_s=None
    )


def test_nothing_goes_when_nobody_waits() -> None:
    assert next_job({}, [], now=NOW) is None


@given(st.permutations(range(6)))
def test_the_first_come_goes_first_whatever_order_the_flows_are_read_in(order: list[int]) -> None:
    arrived = [head() for _ in range(6)]
    choice = next_job({}, [arrived[i] for i in order], now=NOW)
    assert choice is not None
    assert choice.head == arrived[0]
