"""What follows from an answer: when the message is tried again, whether its endpoint gets a
rest, and when it gets no more. Pure: standard library only, `now` and chance are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

RETRY_AFTER_S: Sequence[float] = (
    *(5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600),
    *(10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600),
)
"""Pauses before the second to the tenth try, as Standard Webhooks has them."""
ONCE: Sequence[float] = ()
"""The pauses of what is tried once only."""
JITTER = 0.1
MOST_WAIT = timedelta(hours=24)
"""The longest `Retry-After` that is honoured."""

REST_AFTER = 3
"""Failures in a row, of whichever messages, after which an endpoint gets a rest."""
FIRST_REST = timedelta(seconds=30)
LONGEST_REST = timedelta(minutes=15)
GIVE_UP_AFTER = timedelta(days=5)
"""An endpoint is disabled when nothing but failures came for so long, and so many of them."""
GIVE_UP_FAILURES = 20
GONE = 410


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one try."""

    status: int | None = None
    """The HTTP status; None when there was no answer."""
    error: str = ""
    """What went wrong, in words; empty when the receiver took the message."""
    retry_after: str = ""
    """The header as it came."""
    ms: int = 0

    @property
    def taken(self) -> bool:
        return not self.error


@dataclass(frozen=True, kw_only=True)
class Health:
    """An endpoint's breaker."""

    failures: int = 0
    failing_since: datetime | None = None
    paused_until: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What follows: the message waits until `next_at`, or has ended when that is None."""

    health: Health = field(default_factory=Health)
    next_at: datetime | None = None
    note: str = ""
    """Why the message is given up, in words."""
    disable: str = ""
    """Why its endpoint gets nothing any more, in words."""


def decide(
    outcome: Outcome,
    health: Health,
    *,
    attempts: int,
    pauses: Sequence[float],
    now: datetime,
    chance: float,
) -> Verdict:
    """What follows from the outcome of try number `attempts`. `chance` in 0..1 spreads retries."""
    if outcome.taken:
        return Verdict()
    worse = _worse(health, now=now)
    reason = _reason_to_disable(outcome, worse, now=now)
    if attempts > len(pauses):
        given_up = f"Not taken in {attempts} {'try' if attempts == 1 else 'tries'}."
        return Verdict(health=worse, note=given_up, disable=reason)
    pause = timedelta(seconds=pauses[attempts - 1] * (1 + JITTER * chance))
    wished = min(_wished(outcome.retry_after, now=now), MOST_WAIT)
    return Verdict(health=worse, next_at=now + max(pause, wished), disable=reason)


def _worse(health: Health, *, now: datetime) -> Health:
    """After one more failure."""
    failures = health.failures + 1
    rests = failures - REST_AFTER
    # Beyond the tenth the doubling has long passed the longest rest.
    rest = min(FIRST_REST * 2 ** min(rests, 10), LONGEST_REST) if rests >= 0 else None
    return Health(
        failures=failures,
        failing_since=health.failing_since or now,
        paused_until=now + rest if rest else None,
    )


def _reason_to_disable(outcome: Outcome, health: Health, *, now: datetime) -> str:
    if outcome.status == GONE:
        return "It answered 410: it wants no more messages."
    since = health.failing_since or now
    if now - since >= GIVE_UP_AFTER and health.failures >= GIVE_UP_FAILURES:
        return f"It took nothing for {GIVE_UP_AFTER.days} days, {health.failures} times in a row."
    return ""


def _wished(retry_after: str, *, now: datetime) -> timedelta:
    """What a `Retry-After` asks for: seconds or a date; nothing when it is neither."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:9]), 10**9))
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter of numbers that no clock knows
        return timedelta(0)
    return max((at if at.tzinfo else at.replace(tzinfo=UTC)) - now, timedelta(0))
