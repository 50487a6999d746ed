"""Jobs as they stand, with what can be expected of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from foldline.api.bodies import Body, job_body
from foldline.forecasts.places import Reason
from foldline.forecasts.reading import prospect_of
from foldline.jobs.models import Job
from foldline.jobs.selectors import blocked_reasons


def job_bodies(jobs: Sequence[Job]) -> list[Body]:
    """What the API answers of each of these jobs, which were just read."""
    now = datetime.now(UTC)
    prospects = {job.id: prospect_of(job, now=now) for job in jobs}
    overtaken = {job_id for job_id, each in prospects.items() if each.reason is Reason.FAIR_SHARE}
    blocked = blocked_reasons(jobs, overtaken=overtaken)
    return [
        job_body(job, prospect=prospects[job.id], blocked=blocked.get(job.id), now=now)
        for job in jobs
    ]
