from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from foldline.jobs.models import Job
from foldline.jobs.states import TERMINAL, State

MakeJob = Callable[..., UUID]

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_the_database_refuses_to_leave_a_terminal_state(make_job: MakeJob, state: State) -> None:
    job = Job.objects.filter(id=make_job())
    job.update(state=state)
    with pytest.raises(DatabaseError), transaction.atomic():
        job.update(state=State.QUEUED)
    job.update(state=state)


def test_the_database_refuses_a_state_that_does_not_exist(make_job: MakeJob) -> None:
    job = Job.objects.filter(id=make_job())
    with pytest.raises(IntegrityError), transaction.atomic():
        job.update(state="nearly")


def test_the_database_refuses_a_running_job_without_a_lease(make_job: MakeJob) -> None:
    job = Job.objects.filter(id=make_job())
    with pytest.raises(IntegrityError), transaction.atomic():
        job.update(state=State.RUNNING, owner="w1")
