"""How often a tenant may ask: a bucket of tokens per tenant, in this process alone.

It stands in front of everything else, needs neither Redis nor the database, and goes by the
monotonic clock. Each gateway process has its own: with n of them a tenant gets through up to
n times as often. Jobs are counted exactly, when they are committed.
"""

from __future__ import annotations

import math
import threading
import time
from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from foldline.errors import QuotaExceeded
from foldline.tenants.quotas import quotas_of

WINDOW_S = 60
MOST_BUCKETS = 10_000


class Buckets:
    """A bucket holds the tokens of one minute and fills evenly. Thread-safe.

    Of each, one number is kept: when it will be full again. A full one is not kept at all.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._full_at: dict[tuple[str, UUID], float] = {}

    def take(self, name: str, tenant_id: UUID, *, per_minute: int) -> float:
        """Take a token: 0, or the seconds until there is one."""
        if per_minute <= 0:
            return WINDOW_S
        now = time.monotonic()
        with self._lock:
            full_at = max(now, self._full_at.get((name, tenant_id), now)) + WINDOW_S / per_minute
            missing = full_at - now - WINDOW_S
            if missing > 1e-6:  # sums of seconds are not exact
                return missing
            if len(self._full_at) >= MOST_BUCKETS:
                self._forget_full(now)
            self._full_at[name, tenant_id] = full_at
        return 0

    def _forget_full(self, now: float) -> None:
        self._full_at = {key: at for key, at in self._full_at.items() if at > now}
        if len(self._full_at) >= MOST_BUCKETS:
            self._full_at.clear()  # for once, more is let through

    def clear(self) -> None:
        self._full_at.clear()


buckets = Buckets()


def count_request(tenant_id: UUID, *, method: str | None) -> None:
    """Let a request of a tenant through. Raises QuotaExceeded."""
    whole = quotas_of(tenant_id).whole
    if method == "POST":
        name, allowed = "requests_per_minute", whole.requests_per_minute
    else:
        name, allowed = "polls_per_minute", whole.polls_per_minute
    if allowed is None:
        return
    missing = buckets.take(name, tenant_id, per_minute=allowed)
    if missing:
        wait_s = math.ceil(missing)
        raise QuotaExceeded.of(
            name,
            used=allowed,
            allowed=allowed,
            until=timezone.now() + timedelta(seconds=wait_s),
            retry_after_s=wait_s,
            window_s=WINDOW_S,
        )
