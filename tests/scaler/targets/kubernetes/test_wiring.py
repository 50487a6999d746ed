"""`python -m scaler` with the target `kubernetes`, put together as it will run."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from pytest_django import Settings

from foldline.catalog.models import Revision
from foldline.fleet.policies import latest_decisions
from scaler import wiring
from scaler.targets.kubernetes.cluster import WORKERS
from tests.scaler.conftest import MakeJob
from tests.scaler.targets.kubernetes.house import House
from tests.worker_process import wait_until


@pytest.mark.django_db
@pytest.mark.parametrize("target", ["kubernetes", "advise"])
def test_a_live_revision_gets_its_deployment_and_a_job_its_worker(
    target: str,
    house: House,
    settings: Settings,
    make_job: MakeJob,
    toy: Revision,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "here")
    monkeypatch.setattr("scaler.targets.kubernetes.connect.connect", lambda: house.api)
    settings.NAMESPACE, settings.GPU_NODES = house.namespace, house.labels
    settings.WORKER_IMAGES = {"none": "registry.example/worker:1"}
    with ExitStack() as closing:
        rounds = wiring.loop(target, closing=closing)
        wait_until(lambda: rounds.round() is not None)
        (deployment,) = house.door().deployments(WORKERS)
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        assert container["image"] == "registry.example/worker:1"
        make_job()
        rounds.round()
        assert house.replicas("worker-toy-r1") == (1 if target == "kubernetes" else 0)
        assert latest_decisions([toy.pk])[toy.pk].desired == 1
    assert house.door().lease("foldline-scaler")["spec"]["holderIdentity"] == ""


def test_an_unknown_target_is_refused() -> None:
    with ExitStack() as closing, pytest.raises(wiring.UnknownTarget, match="'moon' is no target"):
        wiring.loop("moon", closing=closing)
