"""Nothing of a quota is exceeded at any commit, however many sessions try at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from uuid import UUID

import pytest
from django.db import connection, transaction

from foldline.catalog.models import Revision
from foldline.errors import QuotaExceeded
from foldline.jobs import services
from foldline.jobs.admission import Submission
from foldline.jobs.models import Job
from foldline.jobs.services import claim
from foldline.tenants.models import Quota, Tenant
from tests.at_once import at_once

pytestmark = pytest.mark.django_db(transaction=True)

MakeJob = Callable[..., UUID]
MakeSubmission = Callable[..., Submission]
Limit = Callable[..., None]
SESSIONS = 12


@pytest.mark.parametrize("of_model", [False, True], ids=["tenant", "model"])
@pytest.mark.parametrize(
    ("limits", "room"),
    [
        ({"waiting": 5}, 5),
        ({"requests_per_minute": 4}, 4),
        ({"gpu_seconds_day": 100}, 3),
        ({"gpu_seconds_month": 100, "running": 2}, 3),
    ],
    ids=str,
)
@pytest.mark.usefixtures("sent")
def test_of_many_submits_as_many_are_accepted_as_there_is_room_for(
    make_submission: MakeSubmission,
    limit: Limit,
    revision: Revision,
    limits: dict[str, int],
    room: int,
    *,
    of_model: bool,
) -> None:
    limit(model=revision.model if of_model else None, **limits)
    calls = [make_submission(estimate_gpu_s=30.0) for _ in range(SESSIONS)]
    told = at_once([partial(services.submit, call) for call in calls])
    refused = [each for each in told if isinstance(each, QuotaExceeded)]
    assert (Job.objects.count(), len(refused)) == (room, SESSIONS - room), told


@pytest.mark.usefixtures("sent")
def test_equal_calls_wait_within_the_limit_too(
    make_submission: MakeSubmission, limit: Limit
) -> None:
    limit(waiting=3)
    calls = [make_submission(fingerprint="e" * 64) for _ in range(SESSIONS)]
    told = at_once([partial(services.submit, call) for call in calls])
    assert Job.objects.count() == 3, told


def test_answers_that_are_there_are_requests_too(
    make_job: MakeJob, make_submission: MakeSubmission, limit: Limit, revision: Revision
) -> None:
    make_job(fingerprint="e" * 64)
    (claimed,) = claim(revision_id=revision.id, owner="w1")
    services.finish(claimed.fence, result={})
    limit(requests_per_minute=4)
    calls = [make_submission(fingerprint="e" * 64) for _ in range(SESSIONS)]
    told = at_once([partial(services.submit, call) for call in calls])
    assert Job.objects.count() == 4, told


@pytest.mark.usefixtures("sent")
def test_a_key_that_comes_many_times_at_once_takes_one_place(
    make_submission: MakeSubmission, limit: Limit
) -> None:
    limit(waiting=1)
    calls = [make_submission(idempotency_key="k") for _ in range(SESSIONS)]
    told = at_once([partial(services.submit, call) for call in calls])
    assert {each.job_id for each in told} == {Job.objects.get().id}


def test_claims_of_two_models_keep_a_limit_over_all(
    make_job: MakeJob, limit: Limit, revision: Revision, other_revision: Revision
) -> None:
    for each in (revision, other_revision):
        for _ in range(SESSIONS):
            make_job(revision_id=each.id, model_id=each.model_id)
    limit(running=3)
    told = at_once(
        [
            partial(claim, revision_id=each.id, owner=f"w{n}", limit=2)
            for each in (revision, other_revision)
            for n in range(SESSIONS // 2)
        ]
    )
    assert Job.objects.filter(state="running").count() == 3, told
    assert not [each for each in told if isinstance(each, Exception)]


def test_workers_of_two_models_do_everything_and_never_more_at_once(
    make_job: MakeJob, limit: Limit, revision: Revision, other_revision: Revision
) -> None:
    for each in (revision, other_revision):
        for _ in range(10):
            make_job(revision_id=each.id, model_id=each.model_id)
    limit(running=2)
    most: list[int] = []

    def work(revision_id: UUID, owner: str) -> None:
        """Until nothing waits; another model's job may keep this one's place for a moment."""
        waiting = Job.objects.filter(revision_id=revision_id, state="queued")
        while waiting.exists():
            for job in claim(revision_id=revision_id, owner=owner):
                most.append(Job.objects.filter(state="running").count())
                services.finish(job.fence, result={})

    told = at_once(
        [partial(work, each.id, f"w{n}") for each in (revision, other_revision) for n in range(2)]
    )
    assert told == [None] * 4
    assert not Job.objects.exclude(state="succeeded").exists()
    assert max(most) <= 2


def test_a_claim_that_holds_one_quota_does_not_wait_for_another(
    make_job: MakeJob, limit: Limit, revision: Revision, other_tenant: Tenant
) -> None:
    """Two claims would else wait for each other."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite lets one writer in at a time")
    limit(running=5)
    mine = make_job()
    make_job(tenant_id=other_tenant.id)
    Quota.objects.create(tenant=other_tenant, running=5)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Quota.objects.select_for_update().get(tenant=other_tenant)
            held.set()
            done.wait(30)

    def take() -> list[UUID]:
        assert held.wait(60)
        taken = claim(revision_id=revision.id, owner="w1", limit=2)
        done.set()
        return [job.fence.job_id for job in taken]

    assert at_once([hold, take])[1] == [mine]


def test_a_claim_and_a_submit_at_once_do_not_stop_each_other(
    make_job: MakeJob, make_submission: MakeSubmission, limit: Limit, revision: Revision
) -> None:
    limit(running=3, waiting=40)
    for _ in range(6):
        make_job()
    calls = [make_submission() for _ in range(6)]
    told = at_once(
        [
            *(partial(services.submit, call) for call in calls),
            *(partial(claim, revision_id=revision.id, owner=f"w{n}") for n in range(6)),
        ]
    )
    assert not [each for each in told if isinstance(each, Exception)]
    states = [Job.objects.filter(state=state).count() for state in ("queued", "running")]
    assert states == [9, 3]
