from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from foldline.catalog.models import Revision
from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.models import Attempt, Job

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("code", ["plugin_crashed", "gpu_oom", "storage"])
def test_a_job_whose_plugin_dies_after_its_cancel_is_not_tried_again(
    make_job: Callable[..., UUID], revision: Revision, code: str
) -> None:
    job = Job.objects.get(id=make_job())
    (claimed,) = services.claim(revision_id=revision.id, owner="w1")
    assert services.cancel(tenant_id=job.tenant_id, job_id=job.id) == "running"
    assert services.fail(claimed.fence, error=job_error(code)) == "cancelled"
    job.refresh_from_db()
    assert job.state == "cancelled"
    assert job.error is not None
    assert job.error["code"] == "cancelled"
    assert Attempt.objects.get().outcome == code
    assert services.claim(revision_id=revision.id, owner="w2") == []
