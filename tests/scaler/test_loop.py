"""Rounds: what is decided is done and kept, and what is not known is left alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from django.db import OperationalError

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import NodeWeights, ScalingDecision
from foldline.fleet.policies import HISTORY, history, latest_decisions, wish
from foldline.jobs import demand, pauses, services
from foldline.jobs.leading import Leader
from foldline.jobs.models import Fault, Job, QueueState
from scaler import loop as rounds
from scaler.brain.demand import Habit
from scaler.loop import PREPARE_S, Loop
from scaler.sources import Sources
from scaler.targets import base
from scaler.targets.base import Problem, Report, Wanted
from tests.ends_after import EndsAfter
from tests.scaler.conftest import MakeJob, MakeRow, Notebook

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock() -> list[float]:
    return [1000.0]


@pytest.fixture
def scaler(target: Notebook, clock: list[float]) -> Loop:
    return Loop(
        target,
        Sources(target, clock=lambda: clock[0]),
        leads=lambda: True,
        clock=lambda: clock[0],
    )


def decision_of(revision: Revision) -> ScalingDecision:
    return latest_decisions([revision.pk])[revision.pk]


def test_a_job_without_a_worker_orders_one(
    scaler: Loop, target: Notebook, make_job: MakeJob, toy: Revision
) -> None:
    scaler.round()
    assert target.last()["toy@r1"].workers == 0
    make_job()
    scaler.round()
    assert target.last()["toy@r1"].workers == 1
    decided = decision_of(toy)
    assert (decided.desired, decided.actual, decided.starts, decided.waiting) == (1, 0, 1, 1)
    assert "from 0 to 1 workers" in decided.reason


def test_an_idle_worker_leaves_in_the_end_and_only_it(
    scaler: Loop, target: Notebook, make_row: MakeRow, clock: list[float], toy: Revision
) -> None:
    target.hire(1)
    make_row(1)
    scaler.round()
    assert target.last()["toy@r1"].workers == 1
    assert decision_of(toy).zero_in_s
    clock[0] += 3600
    scaler.round()
    assert target.last()["toy@r1"].workers == 0
    assert target.last()["toy@r1"].victims == ("here:1",)


def test_a_busy_worker_is_no_victim(
    scaler: Loop, target: Notebook, make_row: MakeRow, clock: list[float], toy: Revision
) -> None:
    target.hire(1)
    make_row(1, state="busy")
    wish(toy.model_id, max_workers=0)
    scaler.round()
    clock[0] += 3600
    scaler.round()
    assert target.last()["toy@r1"].victims == ()


def test_a_busy_worker_that_makes_room_is_told_to_leave_at_the_end_of_its_job(
    scaler: Loop,
    target: Notebook,
    make_row: MakeRow,
    make_job: MakeJob,
    toy: Revision,
    live_revision: Callable[..., Revision],
) -> None:
    target.cards = ("place 1",)
    target.hire(1)
    make_row(1, state="busy")
    make_job(live_revision(name="other"))
    scaler.round()
    orders = target.last()["toy@r1"]
    assert (orders.workers, orders.victims, orders.drains) == (0, (), ("here:1",))
    # As a target shows it from then on.
    target.crew[0] = replace(target.crew[0], phase="ending")
    scaler.round()
    assert target.last()["toy@r1"].drains == (), "it is not planned away again"
    assert target.last()["other@r1"].workers == 0, "it comes when its place is free"
    other = decision_of(Revision.objects.get(model__name="other"))
    assert other.desired == 1
    assert "place 1 is kept for it" in other.reason


def test_what_is_wrong_is_logged_once_and_again_when_it_comes_back(
    scaler: Loop, target: Notebook, toy: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    def logged(seconds: int | None) -> int:
        words = f"The node n has been away for {seconds} s."
        target.problems = () if seconds is None else (Problem(words=words),)
        scaler.round()
        return sum("The node n" in each.message for each in caplog.records)

    assert [logged(1), logged(2), logged(3)] == [1, 1, 1]
    assert [logged(None), logged(4)] == [1, 2]


def test_a_pinned_model_keeps_its_workers(scaler: Loop, target: Notebook, toy: Revision) -> None:
    wish(toy.model_id, pinned=2)
    scaler.round()
    assert target.last()["toy@r1"].workers == 2


def test_what_cannot_be_counted_is_not_touched(
    scaler: Loop,
    target: Notebook,
    toy: Revision,
    live_revision: Callable[..., Revision],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live_revision(name="other")
    count = demand.wanted_of

    def fails(served: demand.Served, **options: object) -> object:
        if served.model == "toy":
            raise OperationalError("cancelled")
        return count(served, **options)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(demand, "wanted_of", fails)
    scaler.round()
    assert {name: each.hold for name, each in target.last().items()} == {
        "other@r1": False,
        "toy@r1": True,
    }
    assert "could not be counted" in decision_of(toy).reason


def test_while_the_workers_cannot_be_seen_nothing_is_done_and_it_is_told(
    scaler: Loop, target: Notebook, make_job: MakeJob, toy: Revision
) -> None:
    make_job()
    scaler.round()
    target.blind = "the API server did not answer"
    scaler.round()
    assert len(target.asked) == 1
    decided = decision_of(toy)
    assert decided.desired == 1, "the last decision stands"
    assert any("did not answer" in each for each in decided.warnings)


def test_what_a_target_could_not_do_stands_beside_the_decision(
    scaler: Loop, target: Notebook, toy: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Report(problems=(Problem(words="waits for memory", revision="toy@r1"),))
    monkeypatch.setattr(target, "act", lambda _wanted: told)
    scaler.round()
    assert decision_of(toy).warnings == ["waits for memory"]


def test_who_does_not_lead_does_nothing(target: Notebook, make_job: MakeJob) -> None:
    make_job()
    another = Leader("scale", keep_s=60, name="another")
    assert another()
    scaler = Loop(target, Sources(target), leads=Leader("scale", keep_s=60, name="this"))
    assert scaler.round() is None
    assert not target.asked
    another.end()
    assert scaler.round() is not None


def test_a_decision_that_stands_is_one_row_and_few_are_kept(
    scaler: Loop, target: Notebook, make_job: MakeJob, toy: Revision
) -> None:
    scaler.round()
    scaler.round()
    assert len(history(toy.pk)) == 1
    for number in range(HISTORY + 3):
        wish(toy.model_id, pinned=number % 2)
        scaler.round()
    assert ScalingDecision.objects.count() == HISTORY
    assert decision_of(toy).desired == (HISTORY + 2) % 2


def test_a_job_for_a_model_without_workers_wakes_it(
    scaler: Loop, make_job: MakeJob, toy: Revision
) -> None:
    """The clock stands still: only the job can end the wait."""
    scaler.round()
    make_job()
    scaler._wait(threading.Event())


def test_a_worker_that_has_ended_wakes_it(target: Notebook, toy: Revision) -> None:
    scaler = Loop(target, Sources(target), leads=lambda: True, news=lambda: True, clock=lambda: 0.0)
    scaler.round()
    scaler._wait(threading.Event())


def test_jobs_that_may_not_start_do_not_keep_it_awake(
    scaler: Loop,
    make_job: MakeJob,
    toy: Revision,
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_job()
    pauses.pause(toy.model_id, reason="maintenance")
    scaler.round()
    scaler.round()
    monkeypatch.setattr(rounds, "WAKE_S", 0.01)
    asked: list[int] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            asked.append(1)
            clock[0] += 0.5
            return False

    scaler._wait(Stop())
    assert len(asked) == rounds.TICK_S / 0.5
    assert Job.objects.get().state == "queued"


def test_a_scaler_that_begins_blind_tells_no_zero(target: Notebook, toy: Revision) -> None:
    def begin() -> None:
        Loop(target, Sources(target), leads=lambda: True).round()

    target.blind = "the API server did not answer"
    begin()
    assert latest_decisions([toy.pk]) == {}
    wish(toy.model_id, pinned=2)
    target.blind = ""
    begin()
    target.blind = "the API server did not answer"
    begin()
    assert decision_of(toy).desired == 2
    assert decision_of(toy).reason == "held at 2: the API server did not answer"


@pytest.fixture
def announced(
    make_job: MakeJob,
    make_row: MakeRow,
    target: Notebook,
    live_revision: Callable[..., Revision],
) -> Revision:
    """`alpha`, named by a job of `toy` that a worker is at; both places and the cards are ours."""
    alpha = live_revision(name="alpha")
    target.hire(1)
    row = make_row(1)
    job = make_job()
    services.claim(revision_id=row.revision_id, owner=row.name, limit=1)
    Job.objects.filter(id=job).update(next_models=["alpha"])
    return alpha


def test_what_is_only_announced_is_asked_for_last(
    scaler: Loop,
    target: Notebook,
    announced: Revision,
    make_job: MakeJob,
    live_revision: Callable[..., Revision],
) -> None:
    """Also where the target knows of room that the brain knows nothing of."""
    target.cards = ("place 1", "place 2", "place 3")
    make_job(live_revision(name="beta"))
    scaler.round()
    assert {name: each.workers for name, each in target.last().items()} == {
        "alpha@r1": 1,
        "beta@r1": 1,
        "toy@r1": 1,
    }
    assert list(target.last()) == ["toy@r1", "beta@r1", "alpha@r1"]


def test_who_was_warmed_gives_way_to_a_worker_that_found_no_memory(
    scaler: Loop,
    target: Notebook,
    announced: Revision,
    make_job: MakeJob,
    make_row: MakeRow,
    monkeypatch: pytest.MonkeyPatch,
    live_revision: Callable[..., Revision],
) -> None:
    target.cards = ("place 1", "place 2", "place 3")
    scaler.round()
    assert target.last()["alpha@r1"].workers == 1
    target.hire(2, revision="alpha@r1", place=2)
    make_row(2, revision=announced)
    make_job(live_revision(name="beta"))
    act = target.act

    def no_memory(wanted: Sequence[Wanted]) -> Report:
        act(wanted)
        problem = Problem(words="needs memory", revision="beta@r1", no_room=True)
        return Report(problems=(problem,))

    monkeypatch.setattr(target, "act", no_memory)
    scaler.round()
    assert target.last()["alpha@r1"].workers == 1
    scaler.round()
    assert target.last()["alpha@r1"].workers == 0
    assert target.last()["alpha@r1"].victims == ("here:2",)


def test_a_warmed_worker_that_finds_no_memory_sends_no_other_away(
    scaler: Loop, target: Notebook, announced: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(words="needs memory", revision="alpha@r1", no_room=True)
    act = target.act

    def no_memory(wanted: Sequence[Wanted]) -> Report:
        act(wanted)
        return Report(problems=(problem,))

    monkeypatch.setattr(target, "act", no_memory)
    scaler.round()
    scaler.round()
    assert target.last()["alpha@r1"].workers == 1, "it is asked for again"


@dataclass(kw_only=True)
class Preparing(Notebook):
    """Also has weights read ahead."""

    prepared: list[list[str]] = field(default_factory=list)

    def prepare(self, revisions: Sequence[base.Revision]) -> Report:
        self.prepared.append([each.name for each in revisions])
        return Report()


def test_weights_of_hot_and_hourly_models_are_read_ahead_now_and_then(
    clock: list[float], toy: Revision, live_revision: Callable[..., Revision]
) -> None:
    live_revision(name="seldom")
    target = Preparing()
    scaler = Loop(
        target,
        Sources(target, clock=lambda: clock[0]),
        leads=lambda: True,
        clock=lambda: clock[0],
    )
    scaler.round()
    assert target.prepared == [[]], "nothing is known of either yet"
    hourly = Habit(gaps=(3600.0,) * 5)
    scaler._memory = replace(scaler._memory, habits={"toy@r1": hourly})
    scaler.round()
    assert len(target.prepared) == 1, "not with every look"
    clock[0] += PREPARE_S
    scaler.round()
    assert target.prepared[1:] == [["toy@r1"]]


def test_wrong_weights_on_a_node_stand_beside_the_decision(scaler: Loop, toy: Revision) -> None:
    trouble = "The weights 'main' of toy are not the reviewed ones"
    NodeWeights.objects.create(revision=toy, node="gpu-1", at=database_now(), trouble=trouble)
    scaler.round()
    [warning] = decision_of(toy).warnings
    assert warning == f"its weights cannot be used on the node gpu-1: {trouble}"


def test_what_a_pod_waited_for_is_kept_with_its_worker(
    scaler: Loop, target: Notebook, make_row: MakeRow
) -> None:
    target.hire(1)
    row = make_row(1)
    waited = (("schedule", 2.0), ("image", 40.0))
    target.crew[0] = replace(target.crew[0], node="gpu-1", placing=waited)
    scaler.round()
    scaler.round()
    row.refresh_from_db()
    assert row.placing == {"node": "gpu-1", "schedule": 2.0, "image": 40.0}


def test_jobs_of_the_lane_bulk_get_as_many_workers_as_were_awarded(
    target: Notebook, toy: Revision, make_job: MakeJob
) -> None:
    Revision.objects.filter(pk=toy.pk).update(lane="bulk")
    jobs = [str(make_job()) for _ in range(3)]
    scaler = Loop(target, Sources(target), leads=lambda: True, own_jobs=True)
    scaler.round()
    assert decision_of(toy).desired == 2, "there are two cards"
    assert (target.last()["toy@r1"].workers, target.last()["toy@r1"].jobs) == (2, tuple(jobs[:2]))


def test_a_minimum_holds_nobody_in_the_lane_bulk(
    scaler: Loop, target: Notebook, toy: Revision
) -> None:
    """Its workers leave when nothing waits: each would be followed by the next one."""
    Revision.objects.filter(pk=toy.pk).update(lane="bulk")
    wish(toy.model_id, min_workers=1)
    scaler.round()
    assert target.last()["toy@r1"].workers == 0


def test_a_model_whose_line_cannot_be_read_is_held_and_keeps_no_other_from_its_workers(
    scaler: Loop,
    target: Notebook,
    toy: Revision,
    make_job: MakeJob,
    live_revision: Callable[..., Revision],
) -> None:
    """Its breaker is of no shape that this release knows."""
    other = live_revision(name="other")
    make_job(), make_job(other)
    broken = {"breaker": {"of": "another release"}}
    QueueState.objects.update_or_create(model_id=toy.model_id, defaults=broken)
    scaler.round()
    assert target.last()["toy@r1"].hold
    assert "could not be counted" in decision_of(toy).reason
    assert target.last()["other@r1"].workers == 1
    assert list(Fault.objects.values_list("part", flat=True)) == ["scale: line"]


@pytest.mark.parametrize(
    ("error", "signs", "faults"),
    [(KeyError("a bug"), [], ["scale"]), (OperationalError("gone"), ["round"], [])],
)
def test_a_round_that_fails_ends_no_scaler_and_one_that_fails_of_itself_leaves_no_sign(
    target: Notebook,
    toy: Revision,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    signs: list[str],
    faults: list[str],
) -> None:
    """Without signs it gives up its lead, and is started anew where somebody watches them."""
    monkeypatch.setenv("FOLDLINE_SIGNS", str(tmp_path))
    monkeypatch.setattr("scaler.loop.connection.close", lambda: None)

    def look() -> base.Seen:
        raise error

    monkeypatch.setattr(target, "look", look)
    Loop(target, Sources(target), leads=lambda: True).run(EndsAfter(2))
    assert [each.name for each in tmp_path.iterdir()] == signs
    assert list(Fault.objects.values_list("part", flat=True)) == faults
