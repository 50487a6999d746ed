"""`manage.py notifier` as a process that is killed, without a Redis."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest
from pytest_django import Settings
from standardwebhooks import Webhook

from foldline.environment import ROOT
from foldline.jobs.models import Leadership, Outbox
from foldline.notify import endpoints
from foldline.notify.models import Delivery
from foldline.tenants.models import Tenant
from tests.foldline.notify.conftest import Receiver
from tests.worker_process import environment, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]

Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(settings: Settings, tmp_path: Path) -> Iterator[Start]:
    """Start a notifier on the test's database; nobody answers at its REDIS_URL."""
    with ExitStack() as running:

        def begin() -> subprocess.Popen[bytes]:
            log = running.enter_context((tmp_path / "notifier.log").open("ab"))
            told = {
                "REDIS_URL": "redis://127.0.0.1:1/0",
                "FOLDLINE_WEBHOOK_HOSTS": ",".join(settings.WEBHOOK_HOSTS),
                "FOLDLINE_SECRET_KEY": settings.SECRET_KEY,
            }
            process = subprocess.Popen(
                [sys.executable, "manage.py", "notifier"],
                cwd=ROOT,
                env=environment(**told),
                stderr=log,
            )
            running.callback(end, process)
            return process

        yield begin


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_a_notifier_that_is_killed_in_mid_delivery_is_followed_by_one_that_delivers(
    start: Start, receiver: Receiver, end_job: Callable[..., UUID], tenant: Tenant
) -> None:
    _, secret = endpoints.register(tenant.id, url=receiver.url, all_jobs=True)
    receiver.may_answer.clear()
    first = start()
    job = end_job()
    wait_until(lambda: receiver.received, what="the first try")
    end(first)
    # The dead one holds the duty until its silence is noticed: ten seconds.
    second = start()
    receiver.may_answer.set()
    delivered = Delivery.objects.filter(state="delivered")
    wait_until(delivered.exists, what="a delivery")
    assert len(receiver.received) >= 2
    (event,) = set(receiver.events)
    said = Webhook(secret).verify(receiver.received[-1].body, receiver.received[-1].headers)
    assert said["data"]["id"] == str(job)
    done = Delivery.objects.get()
    assert (str(done.event), done.attempts) == (event, 1)
    assert not Outbox.objects.exists()
    second.terminate()
    assert second.wait(120) == 0
    assert not Leadership.objects.filter(duty="notify").exists()


def test_it_outlives_a_database_that_is_of_no_use_and_ends_when_asked(tmp_path: Path) -> None:
    """The database has no tables yet, as while `migrate` runs."""
    url = f"sqlite:///{tmp_path / 'db.sqlite3'}"
    program = subprocess.Popen(
        [sys.executable, "manage.py", "notifier"],
        cwd=ROOT,
        env={**os.environ, "FOLDLINE_HOME": str(tmp_path), "DATABASE_URL": url},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    try:
        assert "notify failed" in program.stderr.readline()
        assert program.poll() is None
        program.terminate()
        assert program.wait(120) == 0
    finally:
        program.kill()
        program.stderr.close()
        program.wait()
