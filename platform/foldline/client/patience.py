"""When to try again, and when to give up. Pure: times are arguments.

Every request of this client may be repeated: reading and estimating change nothing, a submit
and a batch carry an idempotency key, a cancel is idempotent, the same bytes uploaded twice are
one artifact. So what decides is only whether the failure may pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# Of a proxy in front, which tells no problem; with one, the problem decides.
PASSING = frozenset({502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long one request is tried: full jitter over a pause that doubles, in seconds.

    `total_s` bounds the whole: no pause is begun that would go beyond it.
    """

    total_s: float = 120.0
    first_s: float = 0.5
    most_s: float = 20.0

    def pause(
        self, *, tries: int, spent_s: float, luck: float, retry_after_s: float | None = None
    ) -> float | None:
        """Seconds to wait after try number `tries` (from 1) failed; None: give up.

        `luck` is evenly drawn from 0 to 1. The server's `retry_after_s` is a least: jitter
        comes on top, so that those it was told to do not come back together.
        """
        ceiling = min(self.most_s, self.first_s * 2.0 ** min(tries - 1, 30))
        pause = luck * ceiling
        if retry_after_s is not None:
            pause = max(0.0, retry_after_s) + luck * self.first_s
        return pause if spent_s + pause <= self.total_s else None


def may_pass(status: int, *, retryable: bool | None) -> bool:
    """Whether the same request may succeed later. `retryable`: the problem's, if it told one.

    Of all 4xx only 429 may, and that only when its problem says so or it has none.
    """
    if status == 429 or status >= 500:
        return (status == 429 or status in PASSING) if retryable is None else retryable
    return False


def seconds_of(retry_after: str | None, *, now: datetime) -> float | None:
    """The header `Retry-After`, seconds or an HTTP date; None when it is neither."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        return _until(retry_after, now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(date: str, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - now).total_seconds())
