"""Writing many new jobs of one tenant down at once: one statement for all on PostgreSQL.

Only what goes plainly is written here. A call that no limit has room for, or whose place is
taken, is left out: for that one alone `services.accept` finds the answer or the refusal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import Q

from foldline.errors import QuotaForbids, RepeatFailure
from foldline.jobs import statements
from foldline.jobs.admission import (
    Submission,
    Submitted,
    counted,
    input_links,
    times_of,
    values_for_sqlite,
    values_of,
)
from foldline.jobs.failing import refuse_repeated
from foldline.jobs.limits import Pair, Use, exceeded, is_counted, owes_ticket, refuse_forbidden
from foldline.jobs.models import Job, JobArtifact
from foldline.jobs.states import State
from foldline.scheduling.fairness import DEFAULT_ESTIMATE_GPU_S
from foldline.scheduling.walk import COUNTED_AHEAD
from foldline.tenants.models import Quota

Calls = Mapping[UUID, Submission]
"""By the id that the job is to have, in the order of the ids."""
Times = tuple[datetime, datetime | None, datetime | None]
"""When it was made, by when it must start, and its deadline."""


def admit_all(calls: Calls) -> dict[UUID, Submitted]:
    """Write down those of the calls that their limits have room for, the first ones first, each
    with its first event. Inside a transaction, until whose end the tenant's quotas are locked."""
    owed = _chosen(calls)
    chosen = {job_id: calls[job_id] for job_id in owed}
    ahead, written = _ahead(chosen.values()), _write(chosen)
    admitted = {}
    for job_id, call in chosen.items():
        if job_id in written:
            admitted[job_id] = _submitted(
                job_id, written[job_id], ahead=ahead[_flow(call)], owes=owed[job_id]
            )
            ahead[_flow(call)] += 1
    return admitted


def _chosen(calls: Calls) -> dict[UUID, bool]:
    """Those that can be new jobs, and whether each owes a ticket. Of calls with the same
    idempotency key the first one."""
    room = _Room(calls.values())
    keys: set[str] = set()
    chosen = {}
    for job_id, call in calls.items():
        if call.idempotency_key not in keys and _may(call):
            owes = room.take(call)
            if owes is not None:
                chosen[job_id] = owes
                keys |= {call.idempotency_key} - {""}
    return chosen


def turn(call: Submission) -> tuple[str, str]:
    """In which order the calls of a request take their places. It is the same in every request:
    else two with the same calls could each hold what the other waits for. Limits are under a
    lock that admits one request at a time; there the calls stay in the order they came in."""
    if call.limits is not None and is_counted(call.limits):
        return "", ""
    return call.idempotency_key, call.fingerprint


def _may(call: Submission) -> bool:
    try:
        refuse_repeated(call.tenant_id, call.fingerprint)
        if call.limits is not None:
            refuse_forbidden(
                call.limits, tenant_id=call.tenant_id, model=call.model, inputs=call.inputs
            )
    except (QuotaForbids, RepeatFailure):
        return False
    return True


class _Room:
    """What the tenant's limits still have room for: counted once, under their lock, and then
    each job that is taken is added."""

    def __init__(self, calls: Iterable[Submission]) -> None:
        limited = {
            call.model_id: call
            for call in calls
            if call.limits is not None and is_counted(call.limits)
        }
        if len(limited) > 1:
            _lock(next(iter(limited.values())).tenant_id, limited)
        self._uses = {
            model_id: counted(call, call.limits)
            for model_id, call in limited.items()
            if call.limits is not None
        }

    def take(self, call: Submission) -> bool | None:
        """Whether the job owes a ticket; None when there is no room for it."""
        use = self._uses.get(call.model_id)
        if use is None or call.limits is None:
            return True
        if exceeded(call.limits, use, estimate_gpu_s=call.estimate_gpu_s) is not None:
            return None
        owes = owes_ticket(call.limits, use)
        self._uses = {
            model_id: _with_one(each, call, of_model=model_id == call.model_id)
            for model_id, each in self._uses.items()
        }
        return owes


def _lock(tenant_id: UUID, models: Iterable[UUID]) -> None:
    """All its quotas at once, in the order in which a single submit locks its two: one after the
    other, two requests could each hold what the other waits for."""
    rows = Quota.objects.filter(Q(model=None) | Q(model_id__in=list(models)), tenant_id=tenant_id)
    list(rows.select_for_update().order_by("id").values_list("id"))


def _with_one(use: Use, call: Submission, *, of_model: bool) -> Use:
    gpu_s = DEFAULT_ESTIMATE_GPU_S if call.estimate_gpu_s is None else call.estimate_gpu_s

    def more(pair: Pair, by: float) -> Pair:
        return Pair(pair.whole + by, pair.model + by * of_model)

    return replace(
        use,
        requests=more(use.requests, 1),
        waiting=more(use.waiting, 1),
        open_gpu_s=more(use.open_gpu_s, gpu_s),
    )


Flow = tuple[UUID, str]


def _flow(call: Submission) -> Flow:
    return call.revision_id, call.priority


def _ahead(calls: Iterable[Submission]) -> Counter[Flow]:
    """How many wait in front of the first job of each flow."""
    found: Counter[Flow] = Counter()
    with connection.cursor() as cursor:
        for flow, call in {_flow(call): call for call in calls}.items():
            values = {"priority": call.priority, **_ids(call)}
            cursor.execute(statements.AHEAD, values)
            (found[flow],) = cursor.fetchone()
    return found


def _ids(call: Submission) -> dict[str, UUID | str]:
    ids = {"revision_id": call.revision_id, "tenant_id": call.tenant_id}
    if connection.vendor == "postgresql":
        return {**ids}
    return {name: value.hex for name, value in ids.items()}


def _submitted(job_id: UUID, times: Times, *, ahead: int, owes: bool) -> Submitted:
    created_at, start_by, deadline = times
    return Submitted(
        job_id=job_id,
        state=State.QUEUED,
        created_at=created_at,
        start_by=start_by,
        deadline=deadline,
        ahead_in_flow=min(ahead, COUNTED_AHEAD),
        owes_ticket=owes,
    )


def _write(calls: Calls) -> Mapping[UUID, Times]:
    """The jobs that were written, with their times; those whose place is taken are not."""
    if not calls:
        return {}
    ordered = dict(sorted(calls.items(), key=lambda each: turn(each[1])))
    insert = _insert_postgres if connection.vendor == "postgresql" else _insert_sqlite
    written = insert(ordered)
    JobArtifact.objects.bulk_create(
        link for job_id in written for link in input_links(calls[job_id], job_id)
    )
    return written


def _insert_postgres(calls: Calls) -> Mapping[UUID, Times]:
    rows = orjson.dumps([_document(call, job_id) for job_id, call in calls.items()]).decode()
    with connection.cursor() as cursor:
        cursor.execute(statements.POSTGRES_INSERT_ALL, {"rows": rows})
        return {job_id: times for job_id, *times in cursor.fetchall()}


def _document(call: Submission, job_id: UUID) -> dict[str, Any]:
    values: dict[str, Any] = dict(values_of(call, job_id))
    for name in statements.JSON:
        if values[name] is not None:
            values[name] = orjson.Fragment(values[name])
    return {**values, **{name: getattr(call, name) for name in statements.RELATIVE}}


def _insert_sqlite(calls: Calls) -> Mapping[UUID, Times]:
    now = datetime.now(UTC)
    times = {job_id: times_of(call, now=now) for job_id, call in calls.items()}
    rows = {
        job_id: values_for_sqlite(call, job_id, times=times[job_id])
        for job_id, call in calls.items()
    }
    with connection.cursor() as cursor:
        cursor.executemany(statements.INSERT, list(rows.values()))
        if cursor.rowcount < len(rows):
            there = set(Job.objects.filter(id__in=list(rows)).values_list("id", flat=True))
            rows = {job_id: row for job_id, row in rows.items() if job_id in there}
        if rows:
            events = [{name: row[name] for name in ("id", "created_at")} for row in rows.values()]
            cursor.executemany(statements.EVENT, events)
    return {job_id: (now, times[job_id]["start_by"], times[job_id]["deadline"]) for job_id in rows}
