"""The target that only says what it would do. Somebody else, such as KEDA, acts on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scaler.targets.base import Report, Seen, Wanted


class AdviseTarget:
    """`look` tells what there is, from wherever it is known; `write` keeps what is wanted."""

    def __init__(
        self, *, look: Callable[[], Seen], write: Callable[[Sequence[Wanted]], None]
    ) -> None:
        self._look, self._write = look, write

    def look(self) -> Seen:
        return self._look()

    def act(self, wanted: Sequence[Wanted]) -> Report:
        self._write(wanted)
        return Report(done=tuple(f"advised {_advice(each)}" for each in wanted))


def _advice(wanted: Wanted) -> str:
    if wanted.revision.lane == "bulk":
        return f"{wanted.revision.name}: {len(wanted.jobs)} jobs of their own"
    return f"{wanted.revision.name}: {wanted.workers} workers"
