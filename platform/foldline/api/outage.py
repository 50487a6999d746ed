"""While the database does not answer, most callers hear so at once.

Each request that waits for it holds one of a few threads for as long as its timeout. Without
this, those behind it in the queue would wait for all of them in turn.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from foldline.errors import DatabaseUnavailable

RETRY_AFTER_S = 5
FAILURES = 3
WITHIN_S = 3.0
REST_S = 0.5


class Outage:
    """Begins with three failures within three seconds, and rests for half a second at a time.

    After a rest requests try again; one that fails begins the next. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: deque[float] = deque(maxlen=FAILURES)
        self._rest_until = 0.0

    def failed(self) -> None:
        """The database did not answer a request."""
        now = time.monotonic()
        with self._lock:
            self._failures.append(now)
            if len(self._failures) == FAILURES and now - self._failures[0] < WITHIN_S:
                self._rest_until = now + REST_S

    def refuse(self) -> None:
        """Raises DatabaseUnavailable while it is of no use to ask."""
        if time.monotonic() < self._rest_until:
            raise DatabaseUnavailable(retry_after_s=RETRY_AFTER_S)

    def clear(self) -> None:
        self._failures.clear()
        self._rest_until = 0.0


outage = Outage()
