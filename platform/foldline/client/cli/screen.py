"""Jobs as they go: bars on a terminal, elsewhere a line whenever something changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from foldline.client.cli.words import clean, short, state_of
from foldline.client.shapes import Job

MOST_BARS = 8


class Words(ProgressColumn):
    """The job's state in words, worked out anew at each drawing: times count down."""

    def render(self, task: Task) -> Text:
        told = task.fields["told"]
        return Text(told if isinstance(told, str) else state_of(told, datetime.now(UTC)))


class Label(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(task.description)


class Screen:
    """`show` takes the jobs after each look. `labels`: by job id; else the id's end names it."""

    def __init__(self, console: Console, labels: Mapping[str, str] | None = None) -> None:
        self._console = console
        self._labels = labels or {}
        self._last: dict[str, str] = {}
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            Label(table_column=Column(no_wrap=True)),
            BarColumn(bar_width=20, complete_style="green", finished_style="green"),
            Words(table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            TimeElapsedColumn(),
            console=console,
            expand=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        self._bars.stop()

    def show(self, jobs: Sequence[Job]) -> None:
        if not self._console.is_terminal:
            self._lines(jobs)
        elif len(jobs) > MOST_BARS:
            self._bar("all", label="jobs", done=_ended(jobs) / len(jobs), told=_sum(jobs))
        else:
            for job in jobs:
                self._bar(job.id, label=self._label(job), done=_done(job), told=job)

    def _label(self, job: Job) -> str:
        return self._labels.get(job.id) or short(job.id)

    def _bar(self, name: str, *, label: str, done: float | None, told: str | Job) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(label, total=None, told=told)
        # Without a total the bar only moves: nobody knows how far it is.
        self._bars.update(
            self._tasks[name], total=None if done is None else 1.0, completed=done or 0, told=told
        )
        if done == 1.0:
            self._bars.stop_task(self._tasks[name])

    def _lines(self, jobs: Sequence[Job]) -> None:
        now = datetime.now(UTC)
        for job in jobs:
            stage = job.progress.stage if job.progress else ""
            mark = f"{job.state} {job.queue.position} {job.queue.blocked_reason} {stage}"
            if self._last.get(job.id) != mark:
                self._last[job.id] = mark
                line = f"{self._label(job)}: {state_of(job, now)}"
                self._console.print(Text(line), soft_wrap=True)


def _done(job: Job) -> float | None:
    if job.ended:
        return 1.0
    return min(0.99, max(0.0, job.progress.fraction)) if job.progress else None


def _ended(jobs: Sequence[Job]) -> int:
    return sum(job.ended for job in jobs)


def _sum(jobs: Sequence[Job]) -> str:
    counts = Counter(job.state for job in jobs)
    states = ", ".join(f"{number} {clean(state)}" for state, number in counts.items())
    return f"{_ended(jobs)} of {len(jobs)} ended: {states}"
