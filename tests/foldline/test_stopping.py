from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from foldline.stopping import stop_event


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_the_end(number: int) -> None:
    stop = stop_event()
    assert not stop.is_set()
    signal.raise_signal(number)
    assert stop.wait(10)


@pytest.mark.timeout(30)
def test_a_signal_in_the_middle_of_a_wait_does_not_hang_the_process() -> None:
    stop = stop_event()
    with stop._cond:  # type: ignore[attr-defined]  # held, as `wait()` holds it now and then
        signal.raise_signal(signal.SIGTERM)
    assert stop.wait(10)
