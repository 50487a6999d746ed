"""How the cluster is found, and that nobody retries behind our back."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.targets.kubernetes.connect import NoCluster, connect
from scaler.targets.kubernetes.faults import TooMany
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import House

CONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1234"}}]
users: [{name: me, user: {}}]
"""


def test_a_kubeconfig_file_names_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config"
    file.write_text(CONFIG)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    api = connect()
    assert api.configuration.host == "http://127.0.0.1:1234"
    api.close()


def test_without_a_cluster_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none")
    )
    with pytest.raises(NoCluster, match="No Kubernetes cluster is configured"):
        connect()


def test_a_refused_call_is_sent_once(house: House, stub_only: ApiStub) -> None:
    with stub_only.trouble("GET", status=429, headers={"Retry-After": "1"}):
        stub_only.calls.clear()
        with pytest.raises(TooMany):
            house.door().pods("")
    assert len(stub_only.calls) == 1
