from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.brain.placement import fit
from scaler.brain.policy import Floor
from scaler.brain.turn import TURN_S
from scaler.simulate import workload
from scaler.simulate.baselines import Keda, KedaSettings, keda_defaults, keda_tuned
from scaler.simulate.brain_actor import BrainActor
from scaler.simulate.report import report
from scaler.simulate.trace import Call, Session, Stage
from scaler.simulate.workload import KINDS, Kind
from scaler.simulate.world import Worker, World


def kind(share: float, *, cold_s: float = 30.0) -> Kind:
    return Kind(
        share=share,
        cold_s=(cold_s, cold_s),
        median_s=60,
        sigma=0,
        least_s=0,
        most_s=1e9,
    )


def session(at_s: float, model: str, count: int, *, each_s: float = 60.0) -> Session:
    calls = (Call(estimate_s=each_s, service_s=each_s),) * count
    return Session(at_s=at_s, stages=(Stage(model=model, calls=calls),))


class Watched(World):
    """A world that looks at every start and stop."""

    def start(self, model: str, *, card: str | None = None) -> Worker | None:
        worker = super().start(model, card=card)
        assert all(-1e-9 <= free <= 1 + 1e-9 for free in self.free.values()), "over-filled"
        return worker

    def stop(self, worker: Worker) -> None:
        assert worker.job is None, "stopped in the middle of a job"
        super().stop(worker)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.integers(100, 400), st.sampled_from((2, 4, 8)))
def test_on_overloaded_cards_every_job_ends_and_none_is_killed(
    seed: int, sessions_a_day: int, cards: int
) -> None:
    """A tenth of a day, eight times as dense as a busy one; floors that do not fit included."""
    sessions = [
        replace(each, at_s=each.at_s / 8)
        for each in workload.agents(seed, sessions_a_day=sessions_a_day)[:8]
    ]
    world = Watched(
        sessions,
        kinds=KINDS,
        cards=cards,
        actor=BrainActor(workload.policies(), every_s=20),
        seed=seed,
    )
    world.run(30_000)
    run = report(world)
    assert (run.killed, run.unfinished) == (0, 0)


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from((0.125, 0.5, 1.0)),
    st.sampled_from((0.125, 0.5, 1.0)),
    st.integers(1, 3),
    st.sampled_from((0.0, 300.0)),
)
def test_a_job_is_served_while_another_model_floods_the_cards(
    share: float, flood_share: float, cards: int, after_s: float
) -> None:
    """Its right begins, what is in its way ends its job and leaves, and it loads."""
    kinds = {"flood": kind(flood_share), "one": kind(share)}
    each_s = 400.0
    flood = session(0, "flood", 300, each_s=each_s)
    policies = [
        kinds["flood"].policy("flood"),
        kinds["one"].policy("one", floor=Floor(after_s=after_s)),
    ]
    world = World(
        [flood, session(1_000, "one", 1)],
        kinds=kinds,
        cards=cards,
        actor=BrainActor(policies),
        seed=1,
    )
    world.run(6_000)
    (job,) = world.tallies["one"].jobs
    assert job.started_s is not None
    # On a single card the flood's only worker is its own for a turn.
    turn_s = TURN_S if cards == 1 else 0
    assert job.waited_s <= max(after_s, turn_s) + each_s + 30 + 20 + 1


def test_more_whole_card_models_than_cards_take_turns() -> None:
    """Three floods on two cards: none goes without a worker for much longer than a turn."""
    kinds = {name: kind(1.0) for name in ("a", "b", "c")}
    each_s = 100.0
    world = World(
        [session(0, name, 200, each_s=each_s) for name in kinds],
        kinds=kinds,
        cards=2,
        actor=BrainActor([each.policy(name) for name, each in kinds.items()]),
        seed=1,
    )
    world.run(9_000)
    for tally in world.tallies.values():
        starts = sorted(start for start, _ in tally.runs if start < 9_000)
        pauses = [later - sooner for sooner, later in pairwise([0.0, *starts, 9_000.0])]
        assert max(pauses) <= TURN_S + 4 * each_s


def test_the_most_recently_idle_worker_takes_the_next_job() -> None:
    world = World([], kinds={"m": kind(0.5, cold_s=0)}, cards=1, actor=_Nobody(), seed=1)
    first, second = world.start("m"), world.start("m")
    assert first is not None
    assert second is not None
    first.state = second.state = "idle"
    first.since_s, second.since_s = 5, 9
    world.now = 10
    world._begin(session(10, "m", 1))
    assert (first.state, second.state) == ("idle", "busy")


class _Nobody:
    every_s = 10.0

    def begin(self, world: World) -> None: ...

    def beat(self, world: World) -> None: ...

    def wake(self, world: World, *, arrived: Mapping[str, int]) -> None: ...


def test_keda_as_delivered_kills_the_job_it_cannot_see_any_more() -> None:
    """One long job: the list is empty while it runs, so KEDA goes to zero after the cooldown."""
    world = World(
        [session(0, "m", 1, each_s=1_500)],
        kinds={"m": kind(1.0)},
        cards=1,
        actor=Keda(KedaSettings(most={"m": 1})),
        seed=1,
    )
    world.run(2_000)
    assert world.tallies["m"].killed > 0


def test_keda_tuned_by_hand_lets_it_end() -> None:
    settings = KedaSettings(most={"m": 1}, jobs_a_replica=1, careful=True)
    world = World(
        [session(0, "m", 1, each_s=1_500)],
        kinds={"m": kind(1.0)},
        cards=1,
        actor=Keda(settings),
        seed=1,
    )
    world.run(2_000)
    assert (world.tallies["m"].killed, report(world).unfinished) == (0, 0)


def test_both_kedas_keep_what_was_measured_of_them_before() -> None:
    """A made-up day of forty sessions, the figures to the second."""
    seen = []
    for actor in (keda_defaults(), keda_tuned()):
        world = World(
            workload.agents(21, sessions_a_day=40), kinds=KINDS, cards=8, actor=actor, seed=21
        )
        world.run(workload.DAY_S)
        run = report(world)
        seen.append((round(run.card_hours, 1), round(run.p95_wait_s), run.cold_starts, run.killed))
    assert seen == [(56.6, 3700, 379, 151), (68.8, 1044, 403, 0)]


def test_the_simulated_cards_fill_as_the_real_ones() -> None:
    world = World([], kinds={"m": kind(0.5)}, cards=3, actor=_Nobody(), seed=1)
    worker = world.start("m", card="card-01")
    assert worker is not None
    assert fit(world.rooms(), share=0.5) == "card-01"
