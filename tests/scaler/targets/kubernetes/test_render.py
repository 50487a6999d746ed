"""What a revision becomes: valid, restricted, with a grace that outlasts its longest job."""

from __future__ import annotations

import copy
from typing import Any, get_args

import pytest

from scaler.targets.base import Flavour, GpuRequest
from scaler.targets.kubernetes import flavours, render
from scaler.targets.kubernetes.cluster import Cluster
from scaler.targets.kubernetes.flavours import CannotRender
from tests.manifests import check
from tests.scaler.targets.kubernetes.house import quarter, revision

WHOLE = Cluster()


def pod_of(body: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = body["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("flavour", get_args(Flavour))
def test_it_is_valid_in_every_flavour(flavour: Flavour) -> None:
    cluster = Cluster(flavour=flavour, node_labels={"cards": "yes"}, kueue_queue="lab")
    it = revision(lane="long", gpu=quarter())
    check(render.deployment(it, cluster=cluster))
    check(render.job(it, job_id="0190aaaa", cluster=cluster))


@pytest.mark.parametrize("kind", ["deployment", "job"])
def test_a_worker_has_no_credentials_and_no_rights(kind: str) -> None:
    it = revision()
    body = (
        render.deployment(it, cluster=WHOLE)
        if kind == "deployment"
        else render.job(it, job_id="1", cluster=WHOLE)
    )
    pod = pod_of(body)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [worker] = pod["containers"]
    assert worker["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPath" in volume for volume in pod["volumes"])


def test_the_grace_outlasts_the_longest_job_and_a_load() -> None:
    it = revision(run_timeout_s=1800, load_timeout_s=120)
    assert pod_of(render.deployment(it, cluster=WHOLE))["terminationGracePeriodSeconds"] == 1980


def test_the_startup_probe_waits_for_the_longest_start_that_was_measured() -> None:
    measured = pod_of(render.deployment(revision(startup_s=91), cluster=WHOLE))["containers"][0]
    unknown = pod_of(render.deployment(revision(load_timeout_s=120), cluster=WHOLE))["containers"][
        0
    ]
    assert measured["startupProbe"]["failureThreshold"] == 31
    assert unknown["startupProbe"]["failureThreshold"] == 36


def test_a_signal_reaches_the_worker_itself() -> None:
    [worker] = pod_of(render.deployment(revision(number=3), cluster=WHOLE))["containers"]
    assert worker["command"] == ["python", "-m", "tasks.worker", "fold@r3"]


def test_a_bulk_job_runs_once_and_an_eviction_is_not_its_fault() -> None:
    body = render.job(revision(lane="bulk"), job_id="0190aaaa", cluster=WHOLE)
    assert body["metadata"]["name"] == "job-0190aaaa"
    assert pod_of(body)["restartPolicy"] == "Never"
    assert pod_of(body)["priorityClassName"] == "offline-batch"
    actions = [rule["action"] for rule in body["spec"]["podFailurePolicy"]["rules"]]
    assert actions == ["FailJob", "Ignore"]


def test_rendering_one_leaves_the_next_one_alone() -> None:
    first = copy.deepcopy(render.deployment(revision(), cluster=WHOLE))
    render.deployment(revision("dock", number=2, lane="long"), cluster=WHOLE)
    assert render.deployment(revision(), cluster=WHOLE) == first


def test_a_name_of_a_model_becomes_a_name_of_an_object() -> None:
    assert render.object_name(revision("flash_abb", number=12)) == "worker-flash-abb-r12"


def test_a_whole_card() -> None:
    assert flavours.render(GpuRequest(), cluster=WHOLE).limits == {"nvidia.com/gpu": "1"}


def test_no_card() -> None:
    assert flavours.render(GpuRequest(cards=0), cluster=Cluster(flavour="hami")).limits == {}


def test_a_share_under_hami_is_bounded_and_fills_used_cards_first() -> None:
    request = GpuRequest(share=0.25, memory_mib=20000, cores_pct=30)
    gpu = flavours.render(request, cluster=Cluster(flavour="hami"))
    assert gpu.limits == {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem": "20000",
        "nvidia.com/gpucores": "30",
    }
    assert set(gpu.annotations.values()) == {"binpack"}
    assert gpu.scheduler == "hami-scheduler"


def test_a_whole_card_under_hami_is_nobody_elses() -> None:
    gpu = flavours.render(GpuRequest(), cluster=Cluster(flavour="hami"))
    assert gpu.limits == {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}


def test_a_share_under_mig_is_a_slice() -> None:
    gpu = flavours.render(quarter(), cluster=Cluster(flavour="mig"))
    assert gpu.limits == {"nvidia.com/mig-2g.20gb": "1"}


@pytest.mark.parametrize(
    ("flavour", "warning"), [("time-sliced", "bound nobody's memory"), ("mps", "an equal part")]
)
def test_a_part_that_is_not_bounded_comes_with_a_warning(flavour: Flavour, warning: str) -> None:
    cluster = Cluster(flavour=flavour)
    gpu = flavours.render(quarter(), cluster=cluster)
    assert gpu.limits == {"nvidia.com/gpu.shared": "1"}
    assert warning in gpu.warning
    assert warning in render.warning(revision(gpu=quarter()), cluster=cluster)


@pytest.mark.parametrize(
    ("flavour", "request_", "missing"),
    [
        ("hami", GpuRequest(share=0.5), "memory"),
        ("mig", GpuRequest(share=0.5), "MIG profile"),
        ("mps", GpuRequest(cards=2, share=0.5), "several cards"),
    ],
)
def test_what_a_flavour_cannot_say_is_told(
    flavour: Flavour, request_: GpuRequest, missing: str
) -> None:
    with pytest.raises(CannotRender, match=missing):
        flavours.render(request_, cluster=Cluster(flavour=flavour))


def test_kueue_is_a_label_and_nothing_else() -> None:
    body = render.deployment(revision(), cluster=Cluster(kueue_queue="lab"))
    assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lab"
    assert "kueue.x-k8s.io/queue-name" not in str(render.deployment(revision(), cluster=WHOLE))
