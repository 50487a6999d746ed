"""A worker is asked to take no more jobs, and says whether it has one."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.selectors import present
from foldline.jobs import services
from foldline.tenants.models import Tenant
from scaler.quiesce import ASK_AGAIN_S, Quiescing, _in_pod, _is_idle
from tests.redis_server import RedisServer
from tests.scaler.conftest import MakeRow, sleep
from tests.worker_process import PLUGINS, running_worker, until, wait_until


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_a_worker_takes_no_more_jobs_ends_the_one_it_has_and_may_be_given_back(
    server: RedisServer,
    tenant: Tenant,
    live_revision: Callable[..., Revision],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scaler.quiesce.ANSWER_S", 30.0)  # however slow this machine is
    revision = live_revision(folder=PLUGINS / "sleepy")
    # Its row names the machine it is on; of a pod that is the pod's name.
    clock = [0.0]
    pod, consumers = socket.gethostname(), Quiescing(clock=lambda: clock[0])
    gate = tmp_path / "gate"
    with running_worker("sleepy", log=tmp_path / "worker.log"):
        until(sleep(revision, tenant, 0.0), "succeeded")
        running = until(sleep(revision, tenant, 0.0, until=str(gate)), "running")
        assert not consumers.stop(pod)
        left = sleep(revision, tenant, 0.0)
        assert not consumers.stop(pod), "asked again it is only looked at"
        gate.touch()
        until(running, "succeeded")
        wait_until(lambda: consumers.stop(pod))
        assert Quiescing().stop(pod), "a scaler that begins later finds it so"
        assert until(left, "queued").attempt == 0
        assert consumers.resume(pod)
        until(left, "succeeded")
        running = until(sleep(revision, tenant, 250.0), "running")
        assert not consumers.stop(pod)
        assert Quiescing().resume(pod), "another scaler leads in between"
        clock[0] += ASK_AGAIN_S
        assert not consumers.stop(pod)
        services.cancel(tenant_id=tenant.id, job_id=running.id)
        wait_until(lambda: _is_idle_in(pod))
        left = sleep(revision, tenant, 0.0)
        wait_until(lambda: consumers.stop(pod))
        assert until(left, "queued").attempt == 0, "it was asked again while it was at work"
    assert not consumers.stop("nobody")
    assert not consumers.resume("nobody")


def _is_idle_in(pod: str) -> bool:
    worker = _in_pod(pod)
    return worker is not None and _is_idle(worker)


@pytest.mark.django_db
def test_one_that_has_ended_by_now_is_not_asked(
    make_row: MakeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last worker of a retired revision: with it the revision is served no more."""
    make_row(1, node="pod-1")
    monkeypatch.setattr("scaler.quiesce.demand.served", list)
    assert not Quiescing().stop("pod-1")


@pytest.mark.django_db
def test_of_a_pod_whose_container_was_started_again_the_last_worker_counts(
    make_row: MakeRow,
) -> None:
    """The row of the one before stands until it is buried."""
    make_row(1, node="pod-1", name="toy-a")
    make_row(2, node="pod-1", name="toy-z", started_at=database_now() - timedelta(seconds=60))
    found = _in_pod("pod-1")
    assert found is not None
    assert found.name == "toy-a"
    assert {each.node: each.name for each in present()} == {"pod-1": "toy-a"}
