"""A tenant whose row is deleted while its jobs wait and run. The admin does not offer it."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from foldline.artifacts.services import store_upload
from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.claims import Fence, Fenced
from foldline.jobs.models import Job
from foldline.jobs.services import claim
from foldline.jobs.sweeper import expire_due, requeue_lost
from foldline.tenants.models import LedgerLine, Tenant

MakeJob = Callable[..., UUID]

pytestmark = pytest.mark.django_db


@pytest.fixture
def fence(make_job: MakeJob, revision: Revision, owner_of_jobs: Tenant) -> Fence:
    """What a worker holds of a tenant that is gone. An earlier job of it has ended, one waits."""
    file = store_upload(tenant_id=owner_of_jobs.id, chunks=[b"bytes"], name="input")
    make_job(artifacts=[("/template", file.id)])
    make_job(**{"fingerprint": "e" * 64})
    make_job(**{"fingerprint": "e" * 64})
    (first,) = claim(revision_id=revision.id, owner="w1")
    services.finish(first.fence, result={}, artifacts=[("made", file.id)])
    (held,) = claim(revision_id=revision.id, owner="w1")
    owner_of_jobs.delete()
    return held.fence


@pytest.mark.parametrize(
    "write",
    [
        services.heartbeat,
        lambda fence: services.progress(fence, fraction=0.5),
        lambda fence: services.checkpointed(fence, step=3),
        lambda fence: services.finish(fence, result={}),
        lambda fence: services.fail(fence, error=job_error("worker_lost")),
        services.stopped,
    ],
    ids=["heartbeat", "progress", "checkpointed", "finish", "fail", "stopped"],
)
def test_its_worker_is_no_longer_the_one(fence: Fence, write: Callable[[Fence], object]) -> None:
    with pytest.raises(Fenced):
        write(fence)


def test_nothing_is_left_but_the_ledger(fence: Fence, revision: Revision) -> None:
    assert not Job.objects.exists()
    line = LedgerLine.objects.get(kind="compute")
    assert (line.tenant, line.model) == ("lab", "sleepy")
    assert claim(revision_id=revision.id, owner="w1") == []
    assert requeue_lost(now=database_now()) == expire_due(now=database_now()) == 0
