"""Whether a worker that serves one job has anything to wait for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.jobs import pauses
from foldline.jobs.demand import has_startable
from foldline.jobs.models import Job
from foldline.jobs.services import claim

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., UUID]


def test_a_job_that_waits_is_one(make_job: MakeJob, revision: Revision) -> None:
    assert not has_startable(revision.id)
    make_job()
    assert has_startable(revision.id)


def test_one_that_runs_is_none(make_job: MakeJob, revision: Revision) -> None:
    make_job()
    claim(revision_id=revision.id, owner="w1")
    assert not has_startable(revision.id)


@pytest.mark.parametrize("changes", [{"not_before": 60}, {"start_by": -60}])
def test_one_that_is_not_due_or_too_late_is_none(
    make_job: MakeJob, revision: Revision, changes: dict[str, int]
) -> None:
    make_job()
    times = {name: database_now() + timedelta(seconds=s) for name, s in changes.items()}
    Job.objects.update(**times)
    assert not has_startable(revision.id)


def test_one_that_its_tenant_may_not_start_is_none(
    make_job: MakeJob, revision: Revision, limit: Callable[..., Any]
) -> None:
    make_job(), make_job()
    limit(running=1)
    assert has_startable(revision.id)
    claim(revision_id=revision.id, owner="w1")
    assert not has_startable(revision.id)


def test_of_a_paused_model_there_is_none(make_job: MakeJob, revision: Revision) -> None:
    make_job()
    pauses.pause(revision.model_id, reason="maintenance")
    assert not has_startable(revision.id)
