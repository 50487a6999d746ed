from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.fleet.services import register
from foldline.jobs.blocked import Facts, blocked_reason
from foldline.jobs.breaker import Breaker, Cause, written
from foldline.jobs.models import Job, QueueState
from foldline.jobs.pauses import pause
from foldline.jobs.selectors import blocked_reasons

MakeJob = Callable[..., UUID]

NOTHING: dict[str, Any] = {
    "attached": False,
    "paused": False,
    "crash_looping": False,
    "waits_for_retry": False,
    "idle": 1,
    "busy": 0,
    "loading": 0,
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"attached": True}, "attached"),
        ({"paused": True}, "paused"),
        ({"crash_looping": True}, "crash_looping"),
        ({"waits_for_retry": True}, "retry_backoff"),
        ({"idle": 0}, "no_capacity"),
        ({"idle": 0, "busy": 3}, "no_capacity"),
        ({"idle": 0, "loading": 1}, "model_loading"),
        ({"idle": 0, "loading": 1, "busy": 1}, "no_capacity"),
        ({"idle": 0, "loading": 1, "waits_for_retry": True}, "retry_backoff"),
        ({"paused": True, "crash_looping": True, "waits_for_retry": True}, "paused"),
    ],
    ids=str,
)
def test_the_reason_that_has_to_go_first_is_told(
    change: dict[str, Any], reason: str | None
) -> None:
    assert blocked_reason(Facts(**{**NOTHING, **change})) == reason


@pytest.mark.django_db
class TestOfJobs:
    @pytest.fixture
    def worker(self, revision: Revision) -> Callable[[str], object]:
        """Let there be one worker, in a state."""
        worker_id = register(name="w1", revision_id=revision.id, node="here", pid=1)
        return lambda state: Worker.objects.filter(id=worker_id).update(state=state)

    @pytest.fixture
    def reason(self, make_job: MakeJob) -> Callable[[], str | None]:
        """Why the one job waits."""
        job_id = make_job()
        return lambda: blocked_reasons(list(Job.objects.filter(id=job_id))).get(job_id)

    def test_a_worker_is_not_there_loads_is_ready_is_busy_and_leaves(
        self, reason: Callable[[], str | None], worker: Callable[[str], object]
    ) -> None:
        told = []
        for state in ("gone", "starting", "loading", "ready", "busy", "draining"):
            worker(state)
            told.append(reason())
        waits = ["model_loading", "model_loading", None, "no_capacity", "no_capacity"]
        assert told == ["no_capacity", *waits]

    def test_an_admins_pause_is_told(
        self, reason: Callable[[], str | None], revision: Revision
    ) -> None:
        pause(revision.model_id, reason="maintenance")
        assert reason() == "paused"

    @pytest.mark.parametrize(
        ("cause", "state", "told"),
        [
            (Cause.CRASHES, "ready", "crash_looping"),
            (Cause.STARTS, "starting", "crash_looping"),
            (Cause.STARTS, "ready", None),
        ],
    )
    def test_a_crash_looping_model_is_told(
        self,
        reason: Callable[[], str | None],
        worker: Callable[[str], object],
        revision: Revision,
        cause: Cause,
        state: str,
        told: str | None,
    ) -> None:
        worker(state)
        breaker = Breaker(revision=str(revision.id)).opened(cause, "why", now=database_now())
        QueueState.objects.create(model_id=revision.model_id, breaker=written(breaker))
        assert reason() == told

    def test_a_retry_that_is_not_due_is_told(
        self, reason: Callable[[], str | None], worker: Callable[[str], object]
    ) -> None:
        worker("ready")
        Job.objects.update(not_before=database_now() + timedelta(hours=1))
        assert reason() == "retry_backoff"
        Job.objects.update(not_before=database_now() - timedelta(seconds=1))
        assert reason() is None

    def test_a_job_that_does_not_wait_has_none(self, reason: Callable[[], str | None]) -> None:
        Job.objects.update(state="cancelled")
        assert reason() is None
