"""The target that only says what it would do. Somebody else, such as KEDA, acts on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from scaler.targets.base import Report, Seen, Wanted


def nothing(_wanted: Sequence[Wanted]) -> Report:
    """Where there is nothing to keep ready for whoever acts."""
    return Report()


class AdviseTarget:
    """`look` tells what there is, from wherever it is known; `keep` makes what others scale,
    and tells what stands in the way."""

    def __init__(
        self,
        *,
        look: Callable[[], Seen],
        keep: Callable[[Sequence[Wanted]], Report] = nothing,
    ) -> None:
        self._look, self._keep = look, keep

    def look(self) -> Seen:
        return self._look()

    def act(self, wanted: Sequence[Wanted]) -> Report:
        report = self._keep(wanted)
        advice = tuple(
            f"advised {_advice(each)}" for each in wanted if not (each.hold or each.jobs)
        )
        return replace(report, done=(*report.done, *advice))


def _advice(wanted: Wanted) -> str:
    return f"{wanted.revision.name}: {wanted.workers} workers"
