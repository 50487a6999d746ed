"""A worker that serves one job leaves when there is none for it, and loses none by that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from celery.worker import state
from django.db import OperationalError

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.jobs import pauses, services, tickets
from foldline.jobs.breaker import Breaker, Cause, written
from foldline.jobs.models import Attempt, Job, QueueState
from tasks import drain
from tasks.drain import Leaver, draining
from tests.worker_process import WorkerProcess, running_worker, until, wait_until

Submit = Callable[..., Job]


@pytest.mark.timeout(60)  # one that does not leave goes on for ever
class TestLeaver:
    @pytest.fixture(autouse=True)
    def _celery(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(state, "should_stop", None)
        monkeypatch.setattr(drain, "ASK_S", 0.001)
        monkeypatch.setattr("tasks.drain.connection.close", lambda: None)

    def test_it_leaves_when_nothing_waits(self) -> None:
        answers = [True, True, False]
        seen: list[bool] = []

        def wanted() -> bool:
            seen.append(draining())
            return answers[len(seen) - 1]

        Leaver(busy=lambda: False, wanted=wanted).run()
        assert draining()
        assert seen == [False, False, False], "not before"

    def test_one_at_work_is_not_asked(self) -> None:
        busy = [True, True, False]
        Leaver(busy=lambda: busy.pop(0), wanted=lambda: bool(busy)).run()
        assert busy == []

    @pytest.mark.parametrize("error", [OperationalError("gone"), KeyError("a bug")])
    def test_while_nobody_can_tell_it_stays_and_asks_on(self, error: Exception) -> None:
        tries: list[bool] = []

        def wanted() -> bool:
            tries.append(draining())
            if len(tries) < 3:
                raise error
            return False

        Leaver(busy=lambda: False, wanted=wanted).run()
        assert tries == [False, False, False]


@pytest.mark.django_db(transaction=True)
@pytest.mark.processes
class TestProcess:
    @pytest.fixture
    def once(self, submit_job: Submit, tmp_path: Path) -> Iterator[WorkerProcess]:
        worker = WorkerProcess(model="sleepy", log=tmp_path / "once.log", arguments=("--once",))
        yield worker
        if worker.process.poll() is None:
            worker.kill()

    def test_its_job_was_cancelled(self, submit_job: Submit, once: WorkerProcess) -> None:
        job = submit_job("sleepy", {"seconds": 0})
        services.cancel(tenant_id=job.tenant_id, job_id=job.id)
        once.start()
        assert once.exit_code() == 0, once.told()
        assert Worker.objects.get().state == "gone"
        assert not Attempt.objects.exists()

    def test_its_model_is_paused_and_the_job_stays_in_line(
        self, submit_job: Submit, once: WorkerProcess
    ) -> None:
        job = submit_job("sleepy", {"seconds": 0})
        pauses.pause(job.model_id, reason="maintenance")
        once.start()
        assert once.exit_code() == 0, once.told()
        job.refresh_from_db()
        assert (job.state, job.attempt) == ("queued", 0)

    def test_it_waits_for_leave_to_load_and_nothing_else_waits(
        self, revisions: dict[str, Revision], once: WorkerProcess
    ) -> None:
        """The model is crash looping, and its next trial is far away."""
        revision = revisions["sleepy"]
        breaker = Breaker(revision=str(revision.pk)).opened(
            Cause.STARTS, "its starts fail", now=database_now() + timedelta(hours=1)
        )
        QueueState.objects.update_or_create(
            model_id=revision.model_id, defaults={"breaker": written(breaker)}
        )
        once.start()
        assert once.exit_code() == 0, once.told()
        assert "waiting for a trial" in once.told()

    def test_a_job_whose_ticket_is_late_is_waited_for(
        self, submit_job: Submit, once: WorkerProcess
    ) -> None:
        job = submit_job("sleepy", {"seconds": 0})
        queue = tickets.queue_name("sleepy", number=1)
        tickets.publisher().withdraw(queue, count=1)
        once.start()
        wait_until(lambda: Worker.objects.filter(state="ready").exists())
        tickets.publisher().publish(queue)
        until(job, "succeeded")
        assert once.exit_code() == 0, once.told()

    def test_another_worker_took_it(
        self, submit_job: Submit, once: WorkerProcess, tmp_path: Path
    ) -> None:
        job = submit_job("sleepy", {"seconds": 250})
        with running_worker("sleepy", log=tmp_path / "other.log"):
            until(job, "running")
            once.start()
            assert once.exit_code() == 0, once.told()
            job.refresh_from_db()
            assert (job.state, job.attempt) == ("running", 1)
