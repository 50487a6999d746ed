"""Who works now, for those who match rows with processes or pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from foldline.fleet.models import Worker


@dataclass(frozen=True, kw_only=True, slots=True)
class Present:
    """A worker that is not gone, as it last said of itself."""

    name: str
    revision_id: UUID
    state: str
    node: str
    pid: int
    ticket: str

    @property
    def process(self) -> str:
        """Where it runs: names a process on this machine and all others."""
        return f"{self.node}:{self.pid}"


def present() -> Sequence[Present]:
    """Every worker that is not gone, the newest last: a container that was started again in its
    pod has a row beside the one of before, until that is buried."""
    workers = Worker.objects.exclude(state=Worker.State.GONE).order_by("started_at", "name")
    columns = tuple(Present.__dataclass_fields__)
    return [Present(**row) for row in workers.values(*columns)]
