"""A call that keeps failing is answered with its first error instead of a card."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import RepeatFailure, job_error
from foldline.jobs import retention, services
from foldline.jobs.admission import Submission, admit
from foldline.jobs.failing import MOST_FAILURES, failing_kept
from foldline.jobs.models import FailingCall, Job
from foldline.jobs.services import claim
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]
MakeSubmission = Callable[..., Submission]

pytestmark = pytest.mark.django_db

CALL: dict[str, Any] = {"fingerprint": "f" * 64}


@pytest.fixture
def fail(make_job: MakeJob, revision: Revision) -> Callable[..., None]:
    """Submit the call and let it fail, so many times; each time for another reason."""

    def times(number: int, *, code: str = "model_error", **changes: Any) -> None:
        for turn in range(number):
            make_job(**{**CALL, **changes})
            (claimed,) = claim(revision_id=revision.id, owner="w1")
            services.fail(claimed.fence, error=job_error(code, f"reason {turn}"))
        failing_kept.clear()

    return times


Fail = Callable[..., None]


def test_after_more_than_five_failures_the_call_is_refused_with_the_first_error(
    fail: Fail, make_job: MakeJob
) -> None:
    fail(MOST_FAILURES)
    fail(1)
    with pytest.raises(RepeatFailure) as told:
        make_job(**CALL)
    assert told.value.extra["first_error"]["detail"] == "reason 0"
    assert told.value.retry_after_s is not None
    assert 3590 <= told.value.retry_after_s <= 3600
    with pytest.raises(RepeatFailure):
        make_job(**CALL, shared=False)
    make_job()


@pytest.mark.parametrize("code", ["invalid_input", "output_too_large", "unheard_of"])
def test_any_failure_that_lies_in_the_call_counts(fail: Fail, make_job: MakeJob, code: str) -> None:
    fail(MOST_FAILURES + 1, code=code)
    with pytest.raises(RepeatFailure):
        make_job(**CALL)


def test_a_failure_that_may_pass_does_not_count(fail: Fail, make_job: MakeJob) -> None:
    fail(MOST_FAILURES + 1, code="deadline_exceeded")
    make_job(**CALL)
    assert not FailingCall.objects.exists()


def test_another_tenants_failures_do_not_count(
    fail: Fail, make_job: MakeJob, other_tenant: Tenant
) -> None:
    fail(MOST_FAILURES + 1, tenant_id=other_tenant.id)
    make_job(**CALL)


def test_a_success_ends_the_row(fail: Fail, make_job: MakeJob, revision: Revision) -> None:
    fail(MOST_FAILURES)
    make_job(**CALL, shared=False)
    (claimed,) = claim(revision_id=revision.id, owner="w1")
    services.finish(claimed.fence, result={})
    fail(1, shared=False)
    make_job(**CALL, shared=False)


def test_a_redrive_is_made_all_the_same_and_its_success_ends_the_row(
    fail: Fail, make_job: MakeJob, make_submission: MakeSubmission, revision: Revision
) -> None:
    fail(MOST_FAILURES + 1)
    admit(make_submission(**CALL, shared=False, limits=None))
    (claimed,) = claim(revision_id=revision.id, owner="w1")
    services.finish(claimed.fence, result={})
    failing_kept.clear()
    make_job(**CALL, shared=False)


def test_an_hour_later_it_is_tried_again_and_counted_anew(fail: Fail, make_job: MakeJob) -> None:
    fail(MOST_FAILURES + 1)
    FailingCall.objects.update(last_at=database_now() - timedelta(hours=1, seconds=1))
    failing_kept.clear()
    fail(1)
    assert FailingCall.objects.get().failures == 1
    make_job(**CALL)


def test_a_known_key_is_answered_all_the_same(fail: Fail, make_job: MakeJob) -> None:
    fail(1, idempotency_key="k")
    first = Job.objects.get().id
    fail(MOST_FAILURES)
    assert make_job(**CALL, idempotency_key="k") == first


def test_a_submit_asks_nothing_while_it_is_known_what_fails(
    make_job: MakeJob, make_submission: MakeSubmission
) -> None:
    make_job()
    call = make_submission()
    with CaptureQueriesContext(connection) as queries:
        services.submit(call)
    assert not [query["sql"] for query in queries if "failing" in query["sql"]]


def test_what_has_not_failed_for_a_day_is_forgotten(fail: Fail) -> None:
    fail(1)
    now = database_now()
    retention.clean(now=now + timedelta(hours=23))
    assert FailingCall.objects.exists()
    retention.clean(now=now + timedelta(hours=25))
    assert not FailingCall.objects.exists()
