"""The same malformed call again and again: after five refusals it hears that repeating is
what does not help. Counted by this process alone, and only where a call is refused."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest

from foldline.api.middleware import request_id
from foldline.errors import FoldlineError, Problem, RepeatFailure, problem

REFUSED = (400, 422)
MOST_IN_A_ROW = 5
FORGOTTEN_AFTER_S = 3600
MOST_CALLS = 1000

Call = tuple[UUID, bytes]


@dataclass(slots=True)
class _Row:
    first_error: Problem
    failures: int
    last_at: float


class Refusals:
    """The calls refused last, the longest ago first. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[Call, _Row] = OrderedDict()

    @contextmanager
    def watch(self, tenant_id: UUID, request: HttpRequest) -> Iterator[None]:
        """Around the handling of a call. Raises RepeatFailure in place of the sixth refusal in
        a row; a call that is accepted begins anew."""
        try:
            yield
        except FoldlineError as error:
            if error.status not in REFUSED:
                raise
            row = self._note(_call(tenant_id, request), problem(error, request_id(request)))
            if row.failures <= MOST_IN_A_ROW:
                raise
            raise RepeatFailure.of(
                row.first_error, failures=row.failures, retry_after_s=FORGOTTEN_AFTER_S
            ) from error
        if self._rows:
            with self._lock:
                self._rows.pop(_call(tenant_id, request), None)

    def _note(self, call: Call, error: Problem) -> _Row:
        now = time.monotonic()
        with self._lock:
            row = self._rows.pop(call, None)
            if row is None or row.last_at < now - FORGOTTEN_AFTER_S:
                row = _Row(first_error=error, failures=0, last_at=now)
            row.failures += 1
            row.last_at = now
            self._rows[call] = row
            if len(self._rows) > MOST_CALLS:
                self._rows.popitem(last=False)
        return row

    def clear(self) -> None:
        self._rows.clear()


refusals = Refusals()


def _call(tenant_id: UUID, request: HttpRequest) -> Call:
    said = [request.path, request.META.get("HTTP_IDEMPOTENCY_KEY", "")]
    digest = hashlib.sha256("\0".join(said).encode(errors="surrogatepass"))
    digest.update(request.body)
    return tenant_id, digest.digest()
