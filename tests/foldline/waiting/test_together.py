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


def test_what_one_asks_at_once_is_one_question_and_what_many_ask_is_the_next() -> None:
    async def ask() -> tuple[Squares, list[Mapping[int, int]]]:
        squares = Squares()
        together = Together(squares)
        first = asyncio.create_task(together.ask_all([1, 2, 0]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        rest = [asyncio.create_task(together.ask_all(numbers)) for numbers in ([2, 3], [3, 4], [])]
        await asyncio.sleep(0)
        squares.go.set()
        return squares, await asyncio.gather(first, *rest)

    squares, answers = asyncio.run(ask())
    assert answers == [{1: 1, 2: 4}, {2: 4, 3: 9}, {3: 9, 4: 16}, {}]
    assert squares.calls == [[0, 1, 2], [2, 3, 4]]


def test_a_failure_is_told_to_all_who_asked_and_the_next_are_answered() -> None:
    async def ask() -> None:
        squares = Squares()
        together = Together(squares)
        squares.go.set()
        squares.away = True
        all_of_them = (together.ask(1), together.ask(2), together.ask_all([2, 3]))
        told = await asyncio.gather(*all_of_them, return_exceptions=True)
        assert [type(each) for each in told] == [Unanswered] * 3
        squares.away = False
        assert await together.ask(3) == 9

    asyncio.run(ask())


def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    async def ask() -> None:
        squares = Squares()
        together = Together(squares)
        alone, many, staying = (
            asyncio.create_task(together.ask(2)),
            asyncio.create_task(together.ask_all([2, 3])),
            asyncio.create_task(together.ask(2)),
        )
        await asyncio.sleep(0)
        alone.cancel()
        many.cancel()
        squares.go.set()
        assert await staying == 4
        for leaving in (alone, many):
            with pytest.raises(asyncio.CancelledError):
                await leaving

    asyncio.run(ask())
