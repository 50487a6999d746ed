"""A connection to Redis that keeps nobody waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

SOCKET_TIMEOUT_S = 0.2
BREAKER_FAILURES = 2
BREAKER_REST_S = 5.0


class BrokerUnavailable(Exception):
    """Redis did not answer in time. Jobs are safe: the database has them."""


class Wire:
    """Short timeouts, no retries, a breaker: after two failures nothing is tried for five
    seconds. Thread-safe."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._lock = threading.Lock()
        self._failures = 0
        self._rest_until = 0.0

    def guarded(self, command: Callable[[], Any]) -> Any:
        """Run a command. Raises BrokerUnavailable, at once while the breaker is open."""
        if time.monotonic() < self._rest_until:
            raise BrokerUnavailable("resting after failures")
        try:
            answer = command()
        except redis.RedisError as error:
            self._failed()
            raise BrokerUnavailable(str(error)) from error
        self._failures = 0
        return answer

    def _failed(self) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= BREAKER_FAILURES:
                self._rest_until = time.monotonic() + BREAKER_REST_S
