"""Which job goes next. Pure: no Django, no I/O, `now` is an argument.

Every claim of the platform asks `next_job`, and nothing else decides order. Today it is
first come, first served over all flows; a fair share by tenant replaces this body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

Accounts = Mapping[str, Any]
"""What the order of one model remembers between claims."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """The first waiting job of a flow, the unit of fairness: (tenant, priority)."""

    job_id: UUID
    attempt: int
    tenant_id: UUID
    priority: str
    estimate_gpu_s: float | None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The job that goes next, and the accounts after it went."""

    head: Head
    accounts: Accounts


def next_job(accounts: Accounts, heads: Sequence[Head], *, now: datetime) -> Choice | None:
    """The head that goes next, or None when no flow has one.

    Ids are time-ordered and a retried job keeps its id, so it returns to the front.
    """
    if not heads:
        return None
    return Choice(head=min(heads, key=lambda head: head.job_id), accounts=accounts)
