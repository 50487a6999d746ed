"""What must be told outside, written down in the transaction that made it true.

Whoever tells it takes the rows away again: `foldline.notify`.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from foldline.jobs.models import Job, Outbox

JOB_ENDED = "job.ended"


def tell_end(job_id: UUID, *, at: datetime) -> None:
    """The end of a job, if anybody asked to be told of it."""
    if Job.objects.filter(id=job_id, notify=True).exists():
        Outbox.objects.create(topic=JOB_ENDED, job_id=job_id, created_at=at, not_before=at)
