"""On one machine: each revision's weights are read once, by a small process, one at a time."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from foldline.ops.programs import Child, Program
from scaler.targets.base import Report, Revision


def reader_command(revision: Revision) -> tuple[str, ...]:
    """How the weights of a revision are read."""
    return (sys.executable, "manage.py", "weights", revision.name)


class Reader:
    """Its process dies with this one. What it finds it keeps in the database itself."""

    def __init__(
        self,
        *,
        write: Callable[[str, str], None],
        command: Callable[[Revision], tuple[str, ...]] = reader_command,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._write, self._command, self._environment = write, command, environment or {}
        self._begun: set[str] = set()
        self._reading: Child | None = None

    def prepare(self, revisions: Sequence[Revision]) -> Report:
        """Begin with the next one, unless one is being read."""
        if self._reading is not None:
            if self._reading.status is None:
                return Report()
            self.close()
        new = next((each for each in revisions if each.name not in self._begun), None)
        if new is None:
            return Report()
        self._begun.add(new.name)
        program = Program(
            name=new.model,
            command=self._command(new),
            orphan_signal=signal.SIGKILL,
            environment=self._environment,
        )
        self._reading = Child(program, write=self._write)
        return Report(done=(f"{new.name}: its weights are read",))

    def close(self) -> None:
        if self._reading is not None:
            self._reading.end_now()
            self._reading = None
