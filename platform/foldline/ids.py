"""Time-ordered identifiers (UUID version 7, RFC 9562 §5.7)."""

from __future__ import annotations

import os
import threading
import time
from datetime import datetime
from uuid import UUID

_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """48 bits of milliseconds, 12 bits that keep one process's ids in order, 62 random bits.

    Two ids of one process always compare in the order they were made, also within a
    millisecond and when the clock steps back (RFC 9562 §6.2, method 3: the clock's
    sub-millisecond part fills `rand_a`).
    """
    global _last
    now = time.time_ns()
    ticks = (now // 1_000_000) << 12 | (now % 1_000_000) * 4096 // 1_000_000
    with _lock:
        _last = ticks = max(ticks, _last + 1)
    random = int.from_bytes(os.urandom(8)) & ((1 << 62) - 1)
    milliseconds, fine = ticks >> 12, ticks & 0xFFF
    return UUID(int=milliseconds << 80 | 0x7 << 76 | fine << 64 | 0b10 << 62 | random)


def first_id(at: datetime) -> UUID:
    """The least id that can have been made at that time, to the millisecond."""
    return UUID(int=int(at.timestamp() * 1000) << 80)
