"""A cluster for the target: the stand-in, or with `KUBE=real` the one that KUBECONFIG names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from kubernetes import client

from scaler.targets.kubernetes.connect import client_of, connect
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import REAL, House, MakeHouse, clear, furnish
from tests.scaler.targets.kubernetes.kubelet import Kubelet


@pytest.fixture
def stub() -> Iterator[ApiStub | None]:
    server = None if REAL else ApiStub()
    yield server
    if server is not None:
        server.close()


@pytest.fixture
def make_house(stub: ApiStub | None) -> Iterator[MakeHouse]:
    made: list[House] = []

    def make(*, cards: int = 4, **node: Any) -> House:
        api = client_of(client.Configuration(host=stub.url)) if stub else connect()
        namespace = f"foldline-{uuid4().hex[:8]}"
        label = ("foldline.io/test", namespace)
        kubelet = Kubelet(api, namespace=namespace, label=label)
        house = House(api=api, namespace=namespace, kubelet=kubelet, stub=stub)
        made.append(house)
        furnish(house)
        kubelet.add_node(cards=cards, **node)
        return house

    yield make
    for house in made:
        if REAL:
            clear(house)
        house.api.close()


@pytest.fixture
def house(make_house: MakeHouse) -> House:
    """One node with four cards."""
    return make_house()


@pytest.fixture
def stub_only(stub: ApiStub | None) -> ApiStub:
    """For faults that a real server cannot be asked for."""
    if stub is None:
        pytest.skip("a real API server cannot be told to misbehave")
    return stub
