"""Workers as processes of this machine: they come, they finish what they have, they leave."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from foldline.catalog.models import Revision as Row
from foldline.fleet.models import Worker
from foldline.fleet.policies import latest_decisions
from foldline.jobs.models import Attempt, Job
from foldline.tenants.ledger import Kind
from foldline.tenants.models import LedgerLine, Tenant
from scaler.loop import Loop
from scaler.sources import Sources
from scaler.targets.base import GpuRequest, Revision, Seen, Wanted
from scaler.targets.local import MEMORY_PART, LocalTarget
from tests.redis_server import RedisServer
from tests.scaler.conftest import sleep
from tests.worker_process import PLUGINS, environment, has_ended, until, wait_until

MakeTarget = Callable[..., LocalTarget]

TOY = Revision(model="toy", number=1, lane="online", memory_mb=100)
OTHER = Revision(model="other", number=1, lane="online", memory_mb=100)

STAYS = "import time; time.sleep(600)"
FAILS = "raise SystemExit(75)"
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
time.sleep(600)
"""


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def make_target(told: list[str]) -> Iterator[MakeTarget]:
    """Targets whose workers run `source`; ended with the test."""
    made: list[LocalTarget] = []

    def make(source: str = STAYS, **changes: Any) -> LocalTarget:
        fields: dict[str, Any] = {
            "places": 2,
            "memory_mb": 10_000,
            "write": lambda name, line: told.append(f"{name}| {line}"),
            "say": told.append,
            "command": lambda _revision: (sys.executable, "-c", source),
        }
        target = LocalTarget(**{**fields, **changes})
        made.append(target)
        return target

    yield make
    for target in made:
        target.close(grace_s=5)


def ended(target: LocalTarget) -> Seen:
    wait_until(target.has_news)
    return target.look()


def test_as_many_come_as_are_wanted_and_places_there_are(make_target: MakeTarget) -> None:
    target = make_target()
    report = target.act([Wanted(revision=TOY, workers=1), Wanted(revision=OTHER, workers=2)])
    seen = target.look()
    assert [each.revision for each in seen.workers] == ["toy@r1", "other@r1"]
    assert {each.cards for each in seen.workers} == {("place 1",), ("place 2",)}
    assert [each.revision for each in report.problems] == ["other@r1"]
    assert "waits for a place" in report.problems[0].words


def test_memory_is_never_promised_twice(make_target: MakeTarget) -> None:
    target = make_target(memory_mb=int(150 / MEMORY_PART))
    report = target.act([Wanted(revision=TOY, workers=2)])
    assert len(target.look().workers) == 1
    assert (
        report.problems[0].words == "needs 100 MiB of memory; of 149 MiB for workers 100 are taken"
    )
    assert report.problems[0].no_room
    (first,) = (each.name for each in target.look().workers)
    report = target.act([Wanted(revision=TOY, victims=(first,)), Wanted(revision=OTHER, workers=1)])
    assert not report.problems[0].no_room, "who is there leaves"


def test_only_named_victims_leave_and_no_more_than_must(make_target: MakeTarget) -> None:
    target = make_target()
    target.act([Wanted(revision=TOY, workers=2)])
    first, second = (each.name for each in target.look().workers)
    target.act([Wanted(revision=TOY, workers=0)])
    assert [each.phase for each in target.look().workers] == ["loading", "loading"]
    target.act([Wanted(revision=TOY, workers=1, victims=(second, first))])
    phases = {each.name: each.phase for each in target.look().workers}
    assert phases.get(second, "ending") == "ending"
    assert phases[first] == "loading"


def test_who_leaves_keeps_its_place_until_it_has_gone(
    make_target: MakeTarget, told: list[str]
) -> None:
    target = make_target(STUBBORN, places=1)
    target.act([Wanted(revision=TOY, workers=1)])
    wait_until(lambda: "toy| here" in told)
    (worker,) = target.look().workers
    target.act([Wanted(revision=TOY, victims=(worker.name,))])
    report = target.act([Wanted(revision=OTHER, workers=1)])
    assert "1 of 1 workers leave" in report.problems[0].words
    psutil.Process(target.processes()[0]).kill()
    assert not ended(target).workers
    assert target.act([Wanted(revision=OTHER, workers=1)]).done


def test_a_worker_that_fails_is_told_and_the_next_one_waits(make_target: MakeTarget) -> None:
    now = [0.0]
    target = make_target(FAILS, clock=lambda: now[0])
    pauses = []
    for _ in range(3):
        assert target.act([Wanted(revision=TOY, workers=1)]).done
        (problem,) = ended(target).problems
        assert problem.blocks
        assert "status 75" in problem.words
        assert not target.act([Wanted(revision=TOY, workers=1)]).done
        began = now[0]
        while target.look().problems:
            now[0] += 0.5
        pauses.append(now[0] - began)
    assert pauses == [1.0, 2.0, 4.0]


def test_at_the_end_everybody_leaves_and_who_does_not_is_killed(
    make_target: MakeTarget, told: list[str]
) -> None:
    target = make_target(STUBBORN)
    target.act([Wanted(revision=TOY, workers=1)])
    wait_until(lambda: "toy| here" in told)
    (process,) = map(psutil.Process, target.processes())
    target.close(grace_s=0.2)
    assert not process.is_running()
    assert "toy@r1 did not end within 0 s: killed" in told


TELLS = "import os; print('share', os.environ['FOLDLINE_SHARE'], flush=True)"


def test_a_worker_is_told_its_share(make_target: MakeTarget, told: list[str]) -> None:
    half = replace(TOY, gpu=GpuRequest(share=0.5))
    make_target(TELLS).act([Wanted(revision=half, workers=1)])
    wait_until(lambda: "toy| share 0.5" in told)


def test_of_what_could_not_be_read_nobody_comes_or_goes(make_target: MakeTarget) -> None:
    target = make_target()
    target.act([Wanted(revision=TOY, workers=1)])
    target.act([Wanted(revision=TOY, hold=True), Wanted(revision=OTHER, hold=True)])
    assert [each.phase for each in target.look().workers] == ["loading"]


@pytest.mark.skipif(sys.platform != "linux", reason="a kernel's promise")
def test_workers_do_not_outlive_a_scaler_that_is_killed(tmp_path: Path) -> None:
    source = f"""
    import sys, time
    from scaler.targets.base import Revision, Wanted
    from scaler.targets.local import LocalTarget
    target = LocalTarget(
        places=1, memory_mb=10_000, write=lambda *_: None, say=lambda _: None,
        command=lambda _: (sys.executable, "-c", {STAYS!r}),
    )
    target.act([Wanted(revision=Revision(model="toy", number=1, lane="online"), workers=1)])
    print(*target.processes(), flush=True)
    time.sleep(600)
    """
    scaler = psutil.Popen([sys.executable, "-c", textwrap.dedent(source)], stdout=-1)
    with scaler.stdout:
        worker = psutil.Process(int(scaler.stdout.readline()))
        wait_until(lambda: STAYS in worker.cmdline())
        scaler.kill()
        scaler.wait()
    wait_until(lambda: has_ended(worker))


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_from_zero_to_a_job_done_and_back_to_zero(
    server: RedisServer,
    tenant: Tenant,
    live_revision: Callable[..., Row],
    told: list[str],
    tmp_path: Path,
) -> None:
    revision = live_revision(folder=PLUGINS / "sleepy")
    target = LocalTarget(
        places=1,
        memory_mb=10_000,
        write=lambda name, line: told.append(f"{name}| {line}"),
        say=told.append,
        environment=environment(),
    )
    hours = [0.0]  # the scaler's clock; a worker that stays idle for one is not worth its place
    scaler = Loop(
        target,
        Sources(target, clock=lambda: hours[0] * 3600),
        leads=lambda: True,
        clock=lambda: hours[0] * 3600,
    )
    try:
        scaler.round()
        assert not target.processes()
        until(sleep(revision, tenant, 0.0), "queued")
        scaler.round()
        (pid,) = target.processes()
        until(Job.objects.get(), "succeeded")

        gate = tmp_path / "gate"
        running = until(sleep(revision, tenant, 0.0, until=str(gate)), "running")
        scaler.round()
        hours[0] += 1
        scaler.round()
        assert "leaves" not in " ".join(told)
        # Even an order to leave that comes while it is at work ends no job.
        target.act(
            [
                Wanted(
                    revision=Revision(model="sleepy", number=1, lane="online"),
                    victims=tuple(each.name for each in target.look().workers),
                )
            ]
        )
        gate.touch()
        until(running, "succeeded")
        wait_until(target.has_news)
        assert psutil.pid_exists(pid) is False or target.look().workers == ()
        scaler.round()
        assert not target.processes()
    finally:
        target.close(grace_s=5)
    assert [each.outcome for each in Attempt.objects.all()] == ["succeeded", "succeeded"], told
    assert not LedgerLine.objects.filter(kind=Kind.WASTED).exists()


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_in_the_lane_bulk_a_worker_serves_one_job_and_leaves(
    server: RedisServer, tenant: Tenant, live_revision: Callable[..., Row], told: list[str]
) -> None:
    revision = live_revision(folder=PLUGINS / "sleepy")
    Row.objects.update(lane="bulk")
    target = LocalTarget(
        places=1,
        memory_mb=10_000,
        write=lambda name, line: told.append(f"{name}| {line}"),
        say=told.append,
        environment=environment(),
    )
    scaler = Loop(target, Sources(target), leads=lambda: True)
    jobs = [sleep(revision, tenant, 0.0) for _ in range(2)]
    try:
        scaler.round()
        until(jobs[0], "succeeded")
        wait_until(target.has_news, what="\n".join(told))
        assert until(jobs[1], "queued").attempt == 0
        scaler.round()
        until(jobs[1], "succeeded")
        wait_until(target.has_news)
        scaler.round()
        assert not target.processes()
    finally:
        target.close(grace_s=5)
    assert [each.outcome for each in Attempt.objects.all()] == ["succeeded", "succeeded"], told


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_an_announced_call_finds_its_worker_loaded_when_the_job_before_ends(
    server: RedisServer,
    tenant: Tenant,
    live_revision: Callable[..., Row],
    told: list[str],
    tmp_path: Path,
) -> None:
    sleepy, dice = (live_revision(folder=PLUGINS / name) for name in ("sleepy", "dice"))
    target = LocalTarget(
        places=2,
        memory_mb=10_000,
        write=lambda name, line: told.append(f"{name}| {line}"),
        say=told.append,
        environment=environment(),
    )
    scaler = Loop(target, Sources(target), leads=lambda: True)
    try:
        gate = tmp_path / "gate"
        first = sleep(sleepy, tenant, 0.0, until=str(gate))
        Job.objects.filter(id=first.id).update(next_models=["dice", "ghost"])
        scaler.round()
        assert [each.revision for each in target.look().workers] == ["sleepy@r1"]
        until(first, "running")
        scaler.round()
        assert [each.revision for each in target.look().workers] == ["sleepy@r1", "dice@r1"]
        decision = latest_decisions([dice.pk])[dice.pk]
        assert decision.reason == "warmed: 1 running job announced it"
        warm = Worker.objects.filter(revision=dice, state="ready")
        wait_until(warm.exists, what="\n".join(told))
        gate.touch()
        until(first, "succeeded")
        scaler.round()
        second = until(sleep(dice, tenant, 0.0, dice=1), "succeeded")
        (only,) = Worker.objects.filter(revision=dice)
        assert second.attempts.get().worker == only.name, "it was not cold"
    finally:
        target.close(grace_s=5)


def test_a_model_that_is_too_large_for_the_machine_sends_nobody_away(
    make_target: MakeTarget,
) -> None:
    target = make_target(memory_mb=1000)
    target.act([Wanted(revision=TOY, workers=1)])
    [problem] = target.act([Wanted(revision=replace(OTHER, memory_mb=5000), workers=1)]).problems
    assert "needs 5000 MiB of memory" in problem.words
    assert not problem.no_room


def test_while_one_without_a_worker_waits_for_memory_no_other_gets_a_further_one(
    make_target: MakeTarget,
) -> None:
    target = make_target(places=4, memory_mb=int(350 / MEMORY_PART) + 1)
    target.act([Wanted(revision=TOY, workers=1)])
    large = Wanted(revision=replace(OTHER, memory_mb=300), workers=1)
    report = target.act([large, Wanted(revision=TOY, workers=2)])
    assert [each.revision for each in target.look().workers] == ["toy@r1"]
    assert report.problems[1].words == "waits: other@r1 has no worker and comes first"
    report = target.act([replace(large, workers=0), Wanted(revision=TOY, workers=2)])
    assert report.problems == ()
