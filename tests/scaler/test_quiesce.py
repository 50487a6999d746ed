"""A worker is asked to take no more jobs, and says whether it has one."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from foldline.catalog.models import Revision
from foldline.fleet.models import Worker
from foldline.tenants.models import Tenant
from scaler.quiesce import Quiescing
from tests.redis_server import RedisServer
from tests.scaler.conftest import sleep
from tests.worker_process import PLUGINS, running_worker, until, wait_until


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_an_idle_worker_takes_no_more_and_one_at_work_goes_on(
    server: RedisServer,
    tenant: Tenant,
    live_revision: Callable[..., Revision],
    tmp_path: Path,
) -> None:
    revision = live_revision(folder=PLUGINS / "sleepy")
    # Its row names the machine it is on; of a pod that is the pod's name.
    pod, ask = socket.gethostname(), Quiescing()
    with running_worker("sleepy", log=tmp_path / "worker.log"):
        until(sleep(revision, tenant, 0.0), "succeeded")
        running = until(sleep(revision, tenant, 2.0), "running")
        assert not ask(pod)
        until(running, "succeeded")
        until(sleep(revision, tenant, 0.0), "succeeded")
        wait_until(lambda: Worker.objects.filter(state="ready", ticket="").exists())
        assert ask(pod)
        left = sleep(revision, tenant, 0.0)
        assert ask(pod), "asking again changes nothing"
        assert until(left, "queued").attempt == 0
    assert not ask("nobody")
