from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.jobs import services
from foldline.jobs.models import Attempt, Job
from foldline.jobs.sweeper import requeue_lost

pytestmark = pytest.mark.django_db


def test_a_job_that_was_lost_and_finished_all_the_same_is_billed_once(
    make_job: Callable[..., UUID], revision: Revision
) -> None:
    job = Job.objects.filter(id=make_job())
    (claimed,) = services.claim(revision_id=revision.id, owner="w1")
    Attempt.objects.update(started_at=database_now() - timedelta(seconds=100))
    job.update(lease_until=database_now() - timedelta(seconds=1))
    assert requeue_lost(now=database_now()) == 1
    services.finish(claimed.fence, result={})
    assert Attempt.objects.get().gpu_seconds == pytest.approx(100, abs=5)
    assert job.get().gpu_seconds == pytest.approx(Attempt.objects.get().gpu_seconds)
