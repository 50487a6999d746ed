"""The crash-loop breaker of one model: when it opens, when a trial is due. Pure.

It opens when a revision has crashed on three different payloads in a row, or when its last
five starts failed. While it is open one trial at a time is made, after pauses that grow; an
answer, or a start that succeeds, closes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

CRASHED_PAYLOADS = 3
FAILED_STARTS = 5
FIRST_PAUSE_S = 30.0
LONGEST_PAUSE_S = 1800.0


class Cause(StrEnum):
    NONE = ""
    CRASHES = "crashes"
    STARTS = "starts"


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """`revision` is the one it is about; another revision of the model starts afresh.

    `crashed`: fingerprints of the payloads that crashed since the last answer, each once.
    """

    revision: str = ""
    crashed: tuple[str, ...] = ()
    cause: Cause = Cause.NONE
    reason: str = ""
    trials: int = 0
    trial_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.cause is not Cause.NONE

    def stops(self, *, loaded: int) -> bool:
        """Whether the model's jobs are not run, with so many of its workers loaded: those serve,
        however many others cannot start."""
        return self.cause is Cause.CRASHES or (self.cause is Cause.STARTS and not loaded)

    def about(self, revision: str) -> Breaker:
        """The breaker as it concerns a revision."""
        return self if self.revision == revision else Breaker(revision=revision)

    def after_crash(self, payload: str, *, now: datetime) -> Breaker:
        crashed = tuple(dict.fromkeys((*self.crashed, payload)))
        after = replace(self, crashed=crashed)
        if self.is_open:
            return replace(after, trial_at=now + timedelta(seconds=pause_s(self.trials)))
        if len(crashed) < CRASHED_PAYLOADS:
            return after
        reason = f"It crashed on {len(crashed)} different payloads in a row."
        return after.opened(Cause.CRASHES, reason, now=now)

    def opened(self, cause: Cause, reason: str, *, now: datetime) -> Breaker:
        trial_at = now + timedelta(seconds=pause_s(0))
        return replace(self, cause=cause, reason=reason, trials=0, trial_at=trial_at)

    def trial_is_due(self, now: datetime) -> bool:
        return self.is_open and (self.trial_at is None or self.trial_at <= now)

    def after_trial_began(self, now: datetime) -> Breaker:
        trials = self.trials + 1
        return replace(self, trials=trials, trial_at=now + timedelta(seconds=pause_s(trials)))

    def with_trial_now(self, now: datetime) -> Breaker:
        """As an admin resumes it: try at once, and with short pauses again."""
        return replace(self, trials=0, trial_at=now)


def pause_s(trials: int) -> float:
    """Seconds until the next trial after `trials` that did not help."""
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(trials, 20)))


def read(kept: Mapping[str, Any] | None) -> Breaker:
    """A breaker from the JSON it is kept as; what is not kept is closed."""
    if not kept:
        return Breaker()
    trial_at = kept["trial_at"]
    return Breaker(
        revision=kept["revision"],
        crashed=tuple(kept["crashed"]),
        cause=Cause(kept["cause"]),
        reason=kept["reason"],
        trials=kept["trials"],
        trial_at=datetime.fromisoformat(trial_at) if trial_at else None,
    )


def written(breaker: Breaker) -> dict[str, Any] | None:
    """As JSON; None when there is nothing to remember."""
    if not breaker.is_open and not breaker.crashed:
        return None
    trial_at = breaker.trial_at.isoformat() if breaker.trial_at else None
    return {**asdict(breaker), "cause": breaker.cause.value, "trial_at": trial_at}
