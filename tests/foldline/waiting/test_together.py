from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import pytest

from foldline.waiting.together import Together, Unanswered


class Squares:
    """Answers slowly, when it is let; remembers what it was asked at once."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.go = asyncio.Event()
        self.away = False

    async def __call__(self, numbers: Collection[int]) -> Mapping[int, int]:
        self.calls.append(sorted(numbers))
        await self.go.wait()
        if self.away:
            raise Unanswered
        return {number: number**2 for number in numbers if number}


def test_what_is_asked_meanwhile_is_asked_at_once_afterwards() -> None:
    async def ask() -> tuple[Squares, list[int | None]]:
        squares = Squares()
        together = Together(squares)
        first = asyncio.create_task(together.ask(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        rest = [asyncio.create_task(together.ask(number)) for number in (2, 3, 2, 0)]
        await asyncio.sleep(0)
        squares.go.set()
        return squares, await asyncio.gather(first, *rest)

    squares, answers = asyncio.run(ask())
    assert answers == [1, 4, 9, 4, None]
    assert squares.calls == [[1], [0, 2, 3]]


def test_a_failure_is_told_to_all_who_asked_and_the_next_are_answered() -> None:
    async def ask() -> None:
        squares = Squares()
        together = Together(squares)
        squares.go.set()
        squares.away = True
        both = await asyncio.gather(*(together.ask(n) for n in (1, 2)), return_exceptions=True)
        assert [type(each) for each in both] == [Unanswered, Unanswered]
        squares.away = False
        assert await together.ask(3) == 9

    asyncio.run(ask())


def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    async def ask() -> None:
        squares = Squares()
        together = Together(squares)
        leaving, staying = (asyncio.create_task(together.ask(2)) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        squares.go.set()
        assert await staying == 4
        with pytest.raises(asyncio.CancelledError):
            await leaving

    asyncio.run(ask())
