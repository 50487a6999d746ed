"""One request until it is answered: what is tried again, and how answers are read."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from foldline.client.asks import Ask, Flow, Lost, Pause, Reply
from foldline.client.errors import BadAnswer, FoldlineError, Refused, Unreachable
from foldline.client.patience import Patience, may_pass, seconds_of
from foldline.client.reading import Shape, Unreadable, read
from foldline.client.shapes import Problem

T = TypeVar("T", bound=Shape)
Noticed = Callable[[FoldlineError, float], None]


def quiet(_error: FoldlineError, _pause: float) -> None:
    """Who is not told does not mind."""


@dataclass(kw_only=True)
class Calling:
    """`noticed` hears of each failure that is tried again, and the pause before it."""

    url: str
    patience: Patience = field(default_factory=Patience)
    noticed: Noticed = quiet
    clock: Callable[[], float] = time.monotonic
    luck: Callable[[], float] = random.random

    def call(self, ask: Ask, *, unless: Collection[str] = ()) -> Flow[Reply]:
        """Ask until there is an answer; a failure that may pass is tried again, unless it has
        one of these codes, after which the caller asks for something else."""
        began, tries = self.clock(), 0
        while True:
            answer = (yield ask) or Lost(why="it was not asked")
            if isinstance(answer, Reply) and answer.status < 300:
                return answer
            tries += 1
            error, passing, after = self._failure(answer)
            pause = self.patience.pause(
                tries=tries, spent_s=self.clock() - began, luck=self.luck(), retry_after_s=after
            )
            if not passing or pause is None or error.code in unless:
                raise error
            self.noticed(error, pause)
            yield Pause(seconds=pause)

    def _failure(self, answer: Reply | Lost) -> tuple[FoldlineError, bool, float | None]:
        """(what went wrong, whether it may pass, when to try again at the earliest)"""
        if isinstance(answer, Lost):
            return Unreachable(self.url, answer.why), not answer.final, None
        problem = _problem(answer)
        passing = may_pass(answer.status, retryable=problem.retryable if problem else None)
        after = seconds_of(answer.headers.get("retry-after"), now=datetime.now(UTC))
        if problem is None:
            detail = f"HTTP {answer.status} without a reason that can be read."
            return BadAnswer(detail, status=answer.status, retryable=passing), passing, after
        return Refused(problem), passing, problem.retry_after_s if after is None else after

    def told(self, kind: type[T], ask: Ask, *, unless: Collection[str] = ()) -> Flow[T]:
        reply = yield from self.call(ask, unless=unless)
        return read_reply(kind, reply)


def read_reply(kind: type[T], reply: Reply) -> T:
    return read_body(kind, json_of(reply))


def read_body(kind: type[T], body: Any) -> T:
    try:
        return read(kind, body)
    except Unreadable as error:
        raise BadAnswer(f"The answer cannot be used: {error}.") from None


def json_of(reply: Reply) -> Any:
    try:
        return json.loads(reply.content)
    except ValueError:
        raise BadAnswer(f"The answer (HTTP {reply.status}) is no JSON.") from None


def _problem(reply: Reply) -> Problem | None:
    """The problem that an answer tells; None when it is somebody else's page."""
    try:
        problem = read(Problem, json.loads(reply.content))
    except ValueError:
        return None
    return replace(problem, status=reply.status)
