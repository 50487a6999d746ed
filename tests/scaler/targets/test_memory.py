"""On one machine: memory is given from model to model as places are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from foldline.catalog.models import Revision
from foldline.fleet.policies import wish
from scaler.loop import Loop
from scaler.sources import Sources
from scaler.targets.local import MEMORY_PART, LocalTarget
from tests.scaler.conftest import MakeJob, MakeRow
from tests.worker_process import wait_until

STAYS = "import time; time.sleep(600)"


@pytest.fixture
def machine() -> Iterator[LocalTarget]:
    """Four places, and memory for two workers of 100 MiB."""
    target = LocalTarget(
        places=4,
        memory_mb=int(200 / MEMORY_PART) + 1,
        write=lambda _name, _line: None,
        say=lambda _text: None,
        command=lambda _revision: (sys.executable, "-c", STAYS),
    )
    yield target
    target.close(grace_s=5)


@pytest.mark.django_db
def test_a_job_of_a_model_without_a_worker_wins_memory_from_idle_workers(
    machine: LocalTarget,
    toy: Revision,
    make_job: MakeJob,
    make_row: MakeRow,
    live_revision: Callable[..., Revision],
) -> None:
    large = live_revision(name="zeta")
    Revision.objects.filter(pk=toy.pk).update(memory_mb=100)
    Revision.objects.filter(pk=large.pk).update(memory_mb=150)
    wish(toy.model_id, min_workers=2)
    scaler = Loop(machine, Sources(machine), leads=lambda: True)
    scaler.round()
    assert len(machine.processes()) == 2
    for process, number in zip(machine.look().workers, range(2), strict=True):
        node, pid = process.name.split(":")
        make_row(int(pid), node=node, name=f"toy-{number}")
    wish(toy.model_id, min_workers=0)
    make_job(large)

    def has_come() -> bool:
        scaler.round()
        there = [each.revision for each in machine.look().workers if each.phase != "ending"]
        return there == ["zeta@r1"]

    wait_until(has_come)
