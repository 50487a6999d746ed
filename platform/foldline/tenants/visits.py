"""A caller who waits asks several times and is one visitor: counted once, known by one key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from foldline.tenants.rates import count_request
from foldline.tenants.services import Caller

VISIT = "foldline.visit"
"""Its name in the WSGI environ. No header gets there: theirs begin with `HTTP_`."""


@dataclass(kw_only=True, slots=True)
class Visit:
    """The requests that are made for one request of a caller."""

    caller: Caller | None = None


def count_visit(caller: Caller, *, method: str | None, environ: Any) -> None:
    """Let a request through, which counts unless its visit was counted. Raises QuotaExceeded."""
    visit: Visit | None = environ.get(VISIT)
    if visit is None or visit.caller is None:
        count_request(caller.tenant_id, method=method)
    if visit is not None:
        visit.caller = caller
