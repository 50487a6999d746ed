"""What both targets keep of a drain: processes here, and pods with a stand-in for the cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from kubernetes import client

from scaler.targets.base import Revision, Target, Wanted
from scaler.targets.kubernetes.connect import client_of
from scaler.targets.local import LocalTarget
from tests.scaler.targets.kubernetes.api_stub import ApiStub
from tests.scaler.targets.kubernetes.house import House, furnish, revision
from tests.scaler.targets.kubernetes.kubelet import Kubelet
from tests.worker_process import wait_until

FOLD, DOCK = revision("fold"), revision("dock")

AT_WORK = """
import pathlib, signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
print("here", flush=True)
while not (told and pathlib.Path(sys.argv[1]).exists()):
    time.sleep(0.02)
"""


class Yard(Protocol):
    """A target with room for two workers, who all have jobs."""

    @property
    def target(self) -> Target: ...

    def came(self, model: str, number: int) -> set[str]:
        """Wait until so many are there; their names."""

    def finish(self) -> None:
        """All jobs end."""

    def gone(self, name: str) -> bool: ...


class Processes:
    def __init__(self, folder: Path) -> None:
        self._end, self._said = folder / "end", list[str]()
        self.target = LocalTarget(
            places=2,
            memory_mb=10_000,
            write=lambda name, line: self._said.append(f"{name}| {line}"),
            say=lambda _words: None,
            command=lambda _revision: (sys.executable, "-c", AT_WORK, str(self._end)),
        )

    def came(self, model: str, number: int) -> set[str]:
        wait_until(lambda: self._said.count(f"{model}| here") >= number)
        return {each.name for each in self.target.look().of(f"{model}@r1")}

    def finish(self) -> None:
        self._end.touch()

    def gone(self, name: str) -> bool:
        return name not in {each.name for each in self.target.look().workers}


class Pods:
    def __init__(self, stub: ApiStub) -> None:
        api = client_of(client.Configuration(host=stub.url))
        kubelet = Kubelet(api, namespace="here", label=("foldline.io/test", "here"))
        self._house = House(api=api, namespace="here", kubelet=kubelet, stub=stub)
        furnish(self._house)
        kubelet.add_node(cards=2)
        self.target = self._house.target()

    def came(self, model: str, number: int) -> set[str]:
        names = self._house.kubelet.until_ready(model, number)
        self._house.busy |= names
        return names

    def finish(self) -> None:
        self._house.busy.clear()

    def gone(self, name: str) -> bool:
        self._house.kubelet.beat()
        return name not in {each.name for each in self.target.look().workers}


@pytest.fixture(params=["processes", "pods"])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    if request.param == "processes":
        here = Processes(tmp_path)
        yield here
        here.finish()
        here.target.close(grace_s=5)
        return
    stub = ApiStub()
    yield Pods(stub)
    stub.close()


def act(yard: Yard, *, fold: int, dock: int, drains: tuple[str, ...] = ()) -> None:
    yard.target.act(
        [
            Wanted(revision=FOLD, workers=fold, drains=drains),
            Wanted(revision=DOCK, workers=dock),
        ]
    )


def phase_of(yard: Yard, name: str) -> str:
    return next(each.phase for each in yard.target.look().workers if each.name == name)


def of(yard: Yard, target: Revision) -> int:
    return len(yard.target.look().of(target.name))


def drained(yard: Yard) -> tuple[str, str]:
    """Two workers at work, and the first was told to leave."""
    act(yard, fold=2, dock=0)
    leaving, other = sorted(yard.came("fold", 2))
    act(yard, fold=1, dock=1, drains=(leaving,))
    return leaving, other


def test_who_is_drained_is_seen_to_leave_and_nobody_else(yard: Yard) -> None:
    leaving, other = drained(yard)
    assert phase_of(yard, leaving) == "ending"
    assert phase_of(yard, other) != "ending"


def test_its_card_is_held_until_its_job_has_ended(yard: Yard) -> None:
    leaving, _ = drained(yard)
    act(yard, fold=1, dock=1)
    assert of(yard, DOCK) == 0
    yard.finish()

    def gone() -> bool:
        act(yard, fold=1, dock=1)
        return yard.gone(leaving)

    wait_until(gone)
    act(yard, fold=1, dock=1)
    assert of(yard, DOCK) == 1


def test_a_drain_is_carried_to_its_end_although_its_worker_is_wanted_again(yard: Yard) -> None:
    leaving, _ = drained(yard)
    act(yard, fold=2, dock=0)
    assert phase_of(yard, leaving) == "ending"


def test_a_drain_is_told_once_and_asked_for_again_it_changes_nothing(yard: Yard) -> None:
    leaving, other = drained(yard)
    act(yard, fold=1, dock=0, drains=(leaving,))
    assert (phase_of(yard, leaving), of(yard, FOLD)) == ("ending", 2)
    assert phase_of(yard, other) != "ending"
