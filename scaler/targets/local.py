"""Workers as processes of this machine: a few places, whoever is idle too long leaves.

SIGTERM is the only word a worker gets: it takes no further job, finishes the one it has, and
leaves. They die with this process (`foldline.ops.leash`), so their places are never counted
twice; start and stop them from one thread, and from the one that lives longest.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foldline.ops.programs import Child, Program
from foldline.ops.supervisor import LONGEST_PAUSE_S, describe
from scaler.targets.base import Problem, Report, Revision, Seen, Wanted, Worker
from scaler.targets.weights_ahead import Reader

QUICK_S = 30.0
"""A worker that failed sooner than this delays the next one of its revision."""
MEMORY_PART = 0.9
"""What all workers together may take of this machine's memory."""
BEAT_S = 0.05


@dataclass(kw_only=True)
class Hired:
    """One process. `told`: it was asked to leave."""

    revision: Revision
    place: str
    child: Child
    since: float
    told: bool = False

    @property
    def name(self) -> str:
        return process_name(self.child.process.pid)


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A revision whose worker died: how often in a row, and how long none is started."""

    times: int
    words: str
    until: float


def process_name(pid: int) -> str:
    """As `fleet.selectors.Present.process` names a worker's row."""
    return f"{os.uname().nodename}:{pid}"


def memory_mb() -> int:
    """Of this machine, or of the container this runs in."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    bound = Path("/sys/fs/cgroup/memory.max")
    text = bound.read_text().strip() if bound.exists() else "max"
    return int(min(whole, int(text)) if text.isdigit() else whole) // 2**20


def worker_command(revision: Revision) -> tuple[str, ...]:
    """How a worker of a revision is started. In the lane `bulk` it leaves after a job."""
    once = ("--once",) if revision.lane == "bulk" else ()
    return (sys.executable, "-m", "tasks.worker", revision.name, *once)


class LocalTarget:
    """At most `places` workers, and no more than memory allows.

    `write` gets the lines of a worker under its model's name, `say` sentences for a person.
    """

    def __init__(
        self,
        *,
        places: int,
        memory_mb: int,
        write: Callable[[str, str], None],
        say: Callable[[str], None],
        command: Callable[[Revision], tuple[str, ...]] = worker_command,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = tuple(f"place {number}" for number in range(1, places + 1))
        self._memory_mb, self._write, self._say = memory_mb * MEMORY_PART, write, say
        self._command, self._environment, self._clock = command, environment or {}, clock
        self._reader = Reader(write=write, environment=environment)
        self._hired: list[Hired] = []
        self._failed: dict[str, Failed] = {}

    def look(self) -> Seen:
        """Never raises: these are our own children."""
        self._bury()
        return Seen(
            cards=self._places,
            workers=tuple(self._shown(each) for each in self._hired),
            problems=tuple(self._failures()),
        )

    def act(self, wanted: Sequence[Wanted]) -> Report:
        done: list[str] = []
        for each in wanted:
            done += [f"{each.revision.name}: {name} leaves" for name in self._let_go(each)]
        problems, first = [], ""
        for each in wanted:
            crew = self._staying(each.revision.name)
            for _ in range(each.workers - len(crew)):
                # Else a further worker of another would take each bit of memory as it comes free.
                behind = _behind(first, each.revision) if first and crew else None
                held_by = behind or self._held_by(each.revision)
                if held_by is not None:
                    problems.append(held_by)
                    if not crew and self._may_come(each.revision):
                        first = first or each.revision.name
                    break
                done.append(f"{each.revision.name}: {self._start(each.revision).name} starts")
        return Report(done=tuple(done), problems=tuple(problems))

    def prepare(self, revisions: Sequence[Revision]) -> Report:
        """See `Prepares.prepare`."""
        return self._reader.prepare(revisions)

    def processes(self) -> Sequence[int]:
        """The process ids of all workers, those that leave as well."""
        return [each.child.process.pid for each in self._hired]

    def has_news(self) -> bool:
        """Whether a worker has ended since the last look."""
        return any(each.child.status is not None for each in self._hired)

    def close(self, *, grace_s: float | None) -> None:
        """Let everybody finish and leave; after `grace_s` (None: as long as its job may run)
        whoever is still there is killed."""
        began = self._clock()
        self._reader.close()
        for each in self._hired:
            self._tell(each)
        for each in self._hired:
            allowed = each.revision.run_timeout_s + 30.0 if grace_s is None else grace_s
            while each.child.status is None and self._clock() - began < allowed:
                time.sleep(BEAT_S)
            if each.child.status is None:
                self._say(f"{each.revision.name} did not end within {allowed:.0f} s: killed")
            each.child.end_now()
        self._hired.clear()

    def _shown(self, hired: Hired) -> Worker:
        return Worker(
            name=hired.name,
            revision=hired.revision.name,
            phase="ending" if hired.told else "loading",  # its row tells when it is loaded
            cards=(hired.place,),
            for_s=self._clock() - hired.since,
        )

    def _bury(self) -> None:
        for each in [each for each in self._hired if each.child.status is not None]:
            each.child.end_now()  # what its process group may have left
            self._hired.remove(each)
            self._note_end(each)

    def _note_end(self, ended: Hired) -> None:
        name, status = ended.revision.name, ended.child.status
        if status == 0 or ended.told:
            self._failed.pop(name, None)
            self._say(f"{name}: a worker has left")
            return
        times = self._failed[name].times + 1 if name in self._failed else 1
        times = times if ended.child.age_s < QUICK_S else 1
        pause_s = min(2.0 ** (times - 1), LONGEST_PAUSE_S)
        words = f"its worker {describe(status)}"
        self._failed[name] = Failed(times=times, words=words, until=self._clock() + pause_s)
        self._say(f"{name}: {words}; the next one starts in {pause_s:.0f} s if it is needed")

    def _failures(self) -> Iterator[Problem]:
        for name, failed in self._failed.items():
            if self._clock() < failed.until:
                yield Problem(words=failed.words, revision=name, blocks=True)

    def _staying(self, revision: str) -> list[Hired]:
        return [each for each in self._hired if each.revision.name == revision and not each.told]

    def _let_go(self, wanted: Wanted) -> Iterator[str]:
        staying = {each.name: each for each in self._staying(wanted.revision.name)}
        for name in [name for name in (*wanted.drains, *wanted.victims) if name in staying]:
            if len(self._staying(wanted.revision.name)) <= wanted.workers:
                return
            self._tell(staying[name])
            yield name

    def _tell(self, hired: Hired) -> None:
        # Once: a second SIGTERM would make Celery drop the job it has.
        if not hired.told:
            hired.told, hired.since = True, self._clock()
            hired.child.ask_to_end()

    def _has_failed(self, revision: Revision) -> bool:
        return any(problem.revision == revision.name for problem in self._failures())

    def _may_come(self, revision: Revision) -> bool:
        """Whether it only waits until others have left."""
        return revision.memory_mb <= self._memory_mb and not self._has_failed(revision)

    def _held_by(self, revision: Revision) -> Problem | None:
        """Why no worker of the revision can be started now."""
        if self._has_failed(revision):
            return Problem(words="waits after a failed start", revision=revision.name)
        if self._free_place() is None:
            leaving = sum(each.told for each in self._hired)
            words = f"waits for a place to be free; {leaving} of {len(self._hired)} workers leave"
            return Problem(words=words, revision=revision.name)
        used = sum(each.revision.memory_mb for each in self._hired)
        leaves = sum(each.revision.memory_mb for each in self._hired if each.told)
        if used + revision.memory_mb > self._memory_mb:
            return Problem(
                words=f"needs {revision.memory_mb} MiB of memory; of {self._memory_mb:.0f} MiB"
                f" for workers {used} are taken",
                revision=revision.name,
                no_room=revision.memory_mb <= self._memory_mb < used - leaves + revision.memory_mb,
            )
        return None

    def _free_place(self) -> str | None:
        taken = {each.place for each in self._hired}
        return next((place for place in self._places if place not in taken), None)

    def _start(self, revision: Revision) -> Hired:
        program = Program(
            name=revision.model,
            command=self._command(revision),
            # Its job is taken up again from the database; an orphan would compute it for nobody.
            orphan_signal=signal.SIGKILL,
            environment={**self._environment, "FOLDLINE_SHARE": f"{revision.gpu.share:g}"},
        )
        hired = Hired(
            revision=revision,
            place=self._free_place() or self._places[0],
            child=Child(program, write=self._write),
            since=self._clock(),
        )
        self._hired.append(hired)
        self._say(f"{revision.name}: a worker starts (process {hired.child.process.pid})")
        return hired


def _behind(first: str, revision: Revision) -> Problem:
    return Problem(words=f"waits: {first} has no worker and comes first", revision=revision.name)
