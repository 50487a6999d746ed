"""One question for many: what is asked while an answer is on its way is asked at once after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Unanswered(Exception):
    """The database did not answer."""


class Together(Generic[K, V]):
    """`answer` is given all that was asked, one call at a time."""

    def __init__(self, answer: Callable[[Collection[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._answer = answer
        self._asked: dict[K, asyncio.Future[V | None]] = {}
        self._work: asyncio.Task[None] | None = None

    async def ask(self, key: K) -> V | None:
        """The answer; None when there is none. Raises Unanswered."""
        return await asyncio.shield(self._put(key))  # it is others' answer, too

    async def ask_all(self, keys: Collection[K]) -> Mapping[K, V]:
        """The answers that there are. Raises Unanswered."""
        futures = {key: self._put(key) for key in keys}
        if futures:
            await asyncio.wait(futures.values())
        answers = {key: future.result() for key, future in futures.items()}
        return {key: answer for key, answer in answers.items() if answer is not None}

    def _put(self, key: K) -> asyncio.Future[V | None]:
        """To those that are asked next."""
        loop = asyncio.get_running_loop()
        future = self._asked.get(key)
        if future is None:
            future = self._asked[key] = loop.create_future()
        if self._work is None:
            self._work = loop.create_task(self._answer_all())
        return future

    async def _answer_all(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, {}
                await self._answer_these(asked)
        finally:
            self._work = None

    async def _answer_these(self, asked: Mapping[K, asyncio.Future[V | None]]) -> None:
        try:
            found = await self._answer(asked.keys())
        except Exception as error:  # it is for those who asked
            for future in asked.values():
                future.set_exception(error)
                future.exception()  # who asked may have left
        else:
            for key, future in asked.items():
                future.set_result(found.get(key))
