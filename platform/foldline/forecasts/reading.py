"""What gateways read: the last forecast of a revision, kept in the process for a second.

Where there is no forecast, or only an old one, nothing is known and nothing is claimed.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.db import connection

from foldline.forecasts.outlook import Outlook, Spot, outlook_of
from foldline.forecasts.places import Places, Reason
from foldline.forecasts.prospects import (
    UNKNOWN,
    Prospect,
    prospect_in_line,
    prospect_running,
    prospect_without_place,
)
from foldline.jobs.admission import Submission
from foldline.jobs.blocked import Blocked
from foldline.jobs.models import Job
from foldline.jobs.states import State
from foldline.scheduling.flows import flow_of
from foldline.scheduling.walk import COUNTED_AHEAD

_STORED = "select {document}, places from forecasts_forecast where revision_id = %s and as_of <> %s"
_NEVER = datetime.min.replace(tzinfo=UTC)
KEEP_S = 1.0
STALE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A forecast as it was read. `before` is the outlook of the one that was read before it: a
    submit may have been answered from that one, here or in another process."""

    outlook: Outlook
    places: Places
    before: Outlook | None = None


forecasts_kept: dict[UUID, tuple[float, Reading | None]] = {}
"""By revision: until when (monotonic seconds), and what was read."""


def reading_of(revision_id: UUID, *, now: datetime) -> Reading | None:
    """The forecast of a revision; None when there is none of the last 30 seconds."""
    until, reading = forecasts_kept.get(revision_id, (0.0, None))
    if until < time.monotonic():
        reading = _read(revision_id, known=reading)
        forecasts_kept[revision_id] = time.monotonic() + KEEP_S, reading
    if reading is None or (now - reading.outlook.as_of).total_seconds() > STALE_S:
        return None
    return reading


def _read(revision_id: UUID, *, known: Reading | None) -> Reading | None:
    """The stored forecast; the known one when that was not walked anew meanwhile."""
    row = _stored(revision_id, but=known.outlook.as_of if known else _NEVER)
    if row is None:
        return known
    document, places = row
    return Reading(
        outlook=outlook_of(json.loads(document)),
        places=Places(places),
        before=known.outlook if known else None,
    )


def _stored(revision_id: UUID, *, but: datetime) -> tuple[str, bytes] | None:
    """Document and places, past the ORM: on PostgreSQL that would have hundreds of kilobytes
    spelled out in hex."""
    if connection.vendor != "postgresql":
        with connection.cursor() as cursor:
            as_of = connection.ops.adapt_datetimefield_value(but)
            cursor.execute(_STORED.format(document="document"), [revision_id.hex, as_of])
            return cursor.fetchone()  # type: ignore[no-any-return]  # the driver's rows are untyped
    from psycopg import Cursor

    connection.ensure_connection()
    # The driver's own cursor raises the driver's errors: a lost session must be Django's, too.
    with connection.wrap_database_errors, Cursor(connection.connection) as binary:
        binary.execute(_STORED.format(document="document::text"), [revision_id, but], binary=True)
        return binary.fetchone()


def estimate_gpu_s(revision_id: UUID, *, size: int) -> float | None:
    """GPU-seconds a job of this size takes in the mean; None while none has ever run."""
    reading = reading_of(revision_id, now=datetime.now(UTC))
    if reading is None or not reading.outlook.measured:
        return None
    return reading.outlook.expected(size).work_s * reading.outlook.share


def memory_of(revision_id: UUID, *, now: datetime) -> dict[str, int | bool] | None:
    """The most memory a worker of the revision was seen to use, and what it may; None while
    none was measured."""
    reading = reading_of(revision_id, now=now)
    if reading is None or not reading.outlook.peak_bytes:
        return None
    peak, limit = reading.outlook.peak_bytes, reading.outlook.memory_bytes
    return {"peak_bytes": peak, "limit_bytes": limit, "fits": peak <= limit}


def prospect_of_new(
    call: Submission, ahead_in_flow: int | None, *, now: datetime
) -> tuple[Prospect, Blocked | None]:
    """What a call can expect that was submitted just now or only asks, and what keeps it from
    running. `ahead_in_flow`: jobs of its tenant and class that wait in front of it."""
    reading = reading_of(call.revision_id, now=now)
    if reading is None:
        return UNKNOWN, None
    outlook, flow = reading.outlook, flow_of(call.tenant_id, call.priority)
    spot = outlook.next_spot(flow, ahead_in_flow=ahead_in_flow)
    if spot is None:
        return prospect_without_place(outlook), outlook.blocked or outlook.tails[flow].held_by
    prospect = prospect_in_line(
        outlook, spot, priority=call.priority, size=call.input_size, now=now
    )
    return prospect, outlook.blocked


def prospect_of(job: Job, *, now: datetime) -> Prospect:
    """What a job can expect; an attached one shows what its run can."""
    run = job.attached_to or job
    if State(job.state) not in (State.QUEUED, State.RUNNING):
        return UNKNOWN
    reading = reading_of(run.revision_id, now=now)
    if reading is None:
        return UNKNOWN
    if run.state == State.RUNNING and run.started_at is not None:
        return prospect_running(
            reading.outlook, size=run.input_size, started_at=run.started_at, now=now
        )
    return _of_waiting(reading, run, now=now)


def _of_waiting(reading: Reading, job: Job, *, now: datetime) -> Prospect:
    outlook, place = reading.outlook, reading.places.get(job.id)
    reason = place.reason if place else None
    spot: Spot | None = None
    if place is not None and place.position is not None and place.ahead_gpu_s is not None:
        spot = Spot(position=place.position, ahead_s=place.ahead_gpu_s / outlook.share)
    elif place is None and not _backs_off(job, now=now):
        spot, reason = _spot_of_newcomer(reading, job)
    if spot is None:
        return prospect_without_place(outlook)
    return prospect_in_line(
        outlook, spot, priority=job.priority, size=job.input_size, now=now, reason=reason
    )


def _spot_of_newcomer(reading: Reading, job: Job) -> tuple[Spot | None, Reason | None]:
    """Of a job that came after the walk; with a reason where the walk before placed it better."""
    flow, ahead = flow_of(job.tenant_id, job.priority), _ahead_in_flow(job)
    spot = reading.outlook.next_spot(flow, ahead_in_flow=ahead)
    told = reading.before.next_spot(flow, ahead_in_flow=ahead) if reading.before else None
    risen = spot is not None and told is not None and spot.position > told.position
    return spot, Reason.FAIR_SHARE if risen else None


def _backs_off(job: Job, *, now: datetime) -> bool:
    return job.not_before is not None and job.not_before > now


def _ahead_in_flow(job: Job) -> int:
    flow = Job.objects.filter(revision=job.revision_id, tenant=job.tenant_id, priority=job.priority)
    ahead = flow.filter(state=State.QUEUED, attached_to=None, id__lt=job.id)
    return ahead[:COUNTED_AHEAD].count()  # no more are told apart
