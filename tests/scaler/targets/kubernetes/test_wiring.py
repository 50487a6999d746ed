"""`python -m scaler` with the target `kubernetes`, put together as it will run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pytest_django import Settings

from foldline.catalog.models import Revision
from foldline.errors import job_error
from foldline.fleet.policies import latest_decisions, wish
from foldline.jobs import services
from scaler import wiring
from scaler.loop import Loop
from scaler.pieces import GIB
from scaler.targets.kubernetes.cluster import LEAVES, WORKERS
from tests.scaler.conftest import MakeJob, MakeRow
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import House
from tests.worker_process import wait_until


@pytest.fixture
def begin(
    house: House, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Loop]]:
    """The scaler of a target, which leads."""
    monkeypatch.setattr("scaler.targets.kubernetes.connect.connect", lambda: house.api)
    settings.NAMESPACE, settings.GPU_NODES = house.namespace, house.labels
    settings.WORKER_IMAGES = {"none": "registry.example/worker:1"}
    with ExitStack() as closing:

        def make(target: str) -> Loop:
            rounds = wiring.loop(target, closing=closing)
            wait_until(lambda: rounds.round() is not None)
            return rounds

        yield make


@pytest.mark.django_db
@pytest.mark.parametrize("target", ["kubernetes", "advise"])
def test_a_live_revision_gets_its_deployment_and_a_job_its_worker(
    target: str,
    house: House,
    begin: Callable[[str], Loop],
    make_job: MakeJob,
    toy: Revision,
) -> None:
    rounds = begin(target)
    (deployment,) = house.door().deployments(WORKERS)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example/worker:1"
    make_job()
    rounds.round()
    assert house.replicas("worker-toy-r1") == (1 if target == "kubernetes" else 0)
    assert latest_decisions([toy.pk])[toy.pk].desired == 1


@pytest.mark.django_db
def test_who_stops_gives_the_lease_back(
    house: House, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.targets.kubernetes.connect.connect", lambda: house.api)
    settings.NAMESPACE = house.namespace
    with ExitStack() as closing:
        rounds = wiring.loop("kubernetes", closing=closing)
        wait_until(lambda: rounds.round() is not None)
    assert house.door().lease("foldline-scaler")["spec"]["holderIdentity"] == ""


@pytest.mark.django_db
@pytest.mark.parametrize("target", ["kubernetes", "advise"])
def test_what_the_cluster_cannot_do_stands_in_the_log_and_beside_the_decision(
    target: str,
    begin: Callable[[str], Loop],
    settings: Settings,
    toy: Revision,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.WORKER_IMAGES = {}
    rounds = begin(target)
    rounds.round()
    words = "toy@r1 is held as it is: it has no image: name one for its runtime."
    assert latest_decisions([toy.pk])[toy.pk].warnings == [words]
    assert [each.message for each in caplog.records].count(words) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("target", ["kubernetes", "advise"])
def test_each_job_of_the_lane_bulk_gets_a_worker_that_serves_once(
    target: str,
    house: House,
    begin: Callable[[str], Loop],
    make_job: MakeJob,
    toy: Revision,
) -> None:
    Revision.objects.update(lane="bulk")
    jobs = {str(make_job()), str(make_job())}
    begin(target)
    sent = house.door().jobs(WORKERS)
    assert {each["metadata"]["labels"]["foldline.io/job"] for each in sent} == jobs
    [worker] = sent[0]["spec"]["template"]["spec"]["containers"]
    assert worker["command"] == ["python", "-m", "tasks.worker", "toy@r1", "--once"]
    assert house.door().deployments(WORKERS) == []


@pytest.mark.django_db
def test_the_lane_bulk_leaves_a_promised_card_alone_and_who_leaves_it_is_told_once(
    house: House,
    begin: Callable[[str], Loop],
    settings: Settings,
    make_row: MakeRow,
    make_job: MakeJob,
    toy: Revision,
    live_revision: Callable[..., Revision],
    stub_only: ApiStub,
) -> None:
    """One card, half of it at work for `toy`; `big` needs all of it, and comes first."""
    settings.GPU_FLAVOUR, settings.GPU_CARDS_PER_NODE = "hami", 1
    Revision.objects.filter(pk=toy.pk).update(lane="bulk")
    wish(toy.model_id, sharing=True, floor_workers=0)
    make_row(1, state="gone", peak_gpu_bytes=30 * GIB, card_bytes=80 * GIB)
    make_job()
    rounds = begin("kubernetes")
    [name] = house.kubelet.until_ready("toy", 1)
    row = make_row(2, node=name, state="busy", name="toy-2")
    [claimed] = services.claim(revision_id=toy.pk, owner=row.name)
    big = live_revision(name="big")
    make_job(), make_job(big)
    rounds.round()
    [pod] = house.kubelet.pods("toy")
    assert LEAVES in pod["metadata"]["annotations"]
    assert len(house.door().jobs(WORKERS)) == 1, "what is free of the card is promised"
    stub_only.calls.clear()
    rounds.round()
    changes = [call for call in stub_only.calls if not call.startswith("GET")]
    assert [call for call in changes if "/leases" not in call] == []
    house.kubelet.say(name, ready=False, phase="Succeeded")
    services.fail(claimed.fence, error=job_error("model_error"))
    rounds.round()
    assert house.replicas("worker-big-r1") == 1


@pytest.mark.django_db
def test_a_model_that_may_share_gets_the_measured_part(
    house: House, begin: Callable[[str], Loop], settings: Settings, make_row: MakeRow, toy: Revision
) -> None:
    settings.GPU_FLAVOUR = "hami"
    make_row(1, state="gone", peak_gpu_bytes=9 * GIB, card_bytes=80 * GIB)
    rounds = begin("kubernetes")
    [worker] = house.deployment("worker-toy-r1").spec.template.spec.containers
    assert "nvidia.com/gpumem" not in worker.resources.limits
    wish(toy.model_id, sharing=True)
    rounds.round()
    [worker] = house.deployment("worker-toy-r1").spec.template.spec.containers
    assert worker.resources.limits["nvidia.com/gpumem"] == str(11 * 1024)
    assert worker.resources.limits["nvidia.com/gpucores"] == "14"


@pytest.mark.django_db
def test_the_startup_probe_is_set_from_the_worst_start_that_was_measured(
    house: House, begin: Callable[[str], Loop], make_row: MakeRow, toy: Revision
) -> None:
    Revision.objects.update(load_timeout_s=600)
    make_row(1, state="gone", load_seconds={"total": 100.0})
    make_row(2, state="gone", load_seconds={"total": 40.0})
    begin("kubernetes")
    deployment = house.deployment("worker-toy-r1").spec
    [worker] = deployment.template.spec.containers
    assert worker.startup_probe.failure_threshold * 5 == 2 * 100 + 60
    grace_s = deployment.template.spec.termination_grace_period_seconds
    assert deployment.progress_deadline_seconds == grace_s + 260


@pytest.mark.parametrize("target", ["kubernetes", "advise"])
def test_without_a_cluster_it_says_so_and_does_not_begin(
    target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none")
    )
    with (
        ExitStack() as closing,
        pytest.raises(wiring.CannotBegin, match="No Kubernetes cluster is configured"),
    ):
        wiring.loop(target, closing=closing)


def test_an_unknown_target_is_refused() -> None:
    with ExitStack() as closing, pytest.raises(wiring.CannotBegin, match="'moon' is no target"):
        wiring.loop("moon", closing=closing)
