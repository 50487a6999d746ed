"""What every target keeps: it looks, and it brings the number of workers to what is wanted.

A target never ends a worker that has a job. What it cannot see, or may not do, it holds as it is
and tells in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from scaler.brain.policy import Lane

Flavour = Literal["whole", "hami", "mig", "time-sliced", "mps"]
Phase = Literal["pending", "loading", "ready", "ending", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuRequest:
    """What one worker needs of the cards.

    `cards`: 0 for none. `share`: the part of each card it is counted as, 1.0 for all of it.
    `memory_mib` and `cores_pct` bound a share where the cluster can; `mig_profile` is such as
    `1g.10gb`.
    """

    cards: int = 1
    share: float = 1.0
    memory_mib: int = 0
    cores_pct: int = 0
    mig_profile: str = ""

    @property
    def whole(self) -> bool:
        return self.share >= 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """What a target must know to run workers of a revision. Times in seconds.

    `startup_s`: the longest start that was measured, with its margin; 0 while none was.
    `image` may stay empty where workers are processes.
    """

    model: str
    number: int
    lane: Lane
    image: str = ""
    gpu: GpuRequest = field(default_factory=GpuRequest)
    threads: int = 1
    memory_mb: int = 1024
    load_timeout_s: int = 120
    run_timeout_s: int = 600
    startup_s: int = 0

    @property
    def name(self) -> str:
        """As `python -m tasks.worker` takes it."""
        return f"{self.model}@r{self.number}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    """One worker as the target sees it, from its order until it has left.

    `ending`: it was told to leave, takes no more jobs and goes when it has none. All but `failed`
    hold their share of `cards`; a pending one's cards are not known yet.
    `for_s` are seconds in this phase, by the target's own steady clock.
    """

    name: str
    revision: str
    phase: Phase
    share: float = 1.0
    count: int = 1
    cards: tuple[str, ...] = ()
    node: str = ""
    for_s: float = 0.0
    placing: tuple[tuple[str, float], ...] = ()
    """Seconds from its order until its process ran, by phase, once it runs."""

    @property
    def holds(self) -> bool:
        return self.phase != "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something a person should know of. While it `blocks`, its revision gets no further worker.
    `no_room`: one was ordered, a card is free, and who is there leaves no room beside it."""

    words: str
    revision: str = ""
    blocks: bool = False
    no_room: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One look. `cards` are all that may be used now, each under a name of its own."""

    workers: tuple[Worker, ...] = ()
    cards: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def of(self, revision: str) -> tuple[Worker, ...]:
        return tuple(each for each in self.workers if each.revision == revision)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """How many workers a revision should have.

    `victims` are idle workers that may leave, the first one first; `drains` leave when they have
    no job, and take no further one. Neither counts among `workers`, and with fewer than must go
    the others stay. Where each job of the lane `bulk` has a worker of its own, `jobs` names those
    it may come for, the first ones first. With `hold`, and nothing else said, not all is known of
    the revision: no worker comes, and nobody goes who was not told to before.
    """

    revision: Revision
    workers: int = 0
    victims: tuple[str, ...] = ()
    drains: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    hold: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What was done, and what was not, in words."""

    done: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class Unseen(Exception):
    """The target cannot be looked at now. Its text says why; nothing may be concluded from it."""


class Target(Protocol):
    def look(self) -> Seen:
        """Raises Unseen."""

    def act(self, wanted: Sequence[Wanted]) -> Report:
        """First those who leave, then those who come, in the order given, as far as cards are
        free. A revision that is not named is left as it is. Raises nothing of the target's:
        what failed is held and told."""


@runtime_checkable
class Prepares(Protocol):
    """What a target may do beside: have weights where workers may come, before they do."""

    def prepare(self, revisions: Sequence[Revision]) -> Report:
        """Let their weights be read and checked wherever that was not done lately; returns at
        once. What is found is kept in the database by whoever reads. Raises nothing of the
        target's."""
