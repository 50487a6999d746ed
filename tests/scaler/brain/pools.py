"""Random pools for the brain's properties: cards that are full, empty, gone, or partly known."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from scaler.brain.demand import Habit
from scaler.brain.plan import Memory, Promise
from scaler.brain.policy import Floor, Policy
from scaler.brain.views import Demand, Hint, Observation, Worker

SHARES = (0.125, 0.25, 0.5, 1.0)
NAMES = ("a", "b", "c", "d")

seconds = st.floats(1, 1800)


@st.composite
def policies(draw: st.DrawFn, *, name: str = "a") -> Policy:
    return Policy(
        model=name,
        share=draw(st.sampled_from(SHARES)),
        cold_s=draw(st.floats(1, 180)),
        lane=draw(st.sampled_from(("online", "long"))),
        omega=draw(st.floats(0.02, 1)),
        trust=draw(st.sampled_from((0.25, 0.5, 1.0))),
        min_workers=draw(st.sampled_from((0, 0, 0, 1))),
        floor=Floor(
            workers=draw(st.integers(1, 3)),
            after_s=draw(st.sampled_from((0.0, 300.0))),
            step_s=draw(st.sampled_from((0.0, 300.0))),
        ),
    )


hints = st.builds(Hint, running=st.integers(0, 3), queued=st.integers(1, 3), in_s=st.floats(0, 400))
demands = st.builds(
    Demand,
    waiting=st.lists(seconds, max_size=8).map(tuple),
    oldest_s=st.floats(0, 4000),
    arrived=st.integers(0, 5),
    hint=st.none() | hints,
)
habits = st.builds(
    Habit,
    gaps=st.lists(st.floats(0, 1e5), max_size=20).map(tuple),
    bursts=st.lists(st.integers(1, 30), max_size=5).map(tuple),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """All that `decide` is asked with."""

    seen: Observation
    policies: tuple[Policy, ...]
    memory: Memory

    @property
    def workers(self) -> tuple[Worker, ...]:
        assert isinstance(self.seen.workers, tuple)
        return self.seen.workers


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to four models on up to six cards, none of them over-filled."""
    rules = tuple(draw(policies(name=name)) for name in NAMES[: draw(st.integers(1, 4))])
    cards = {f"card-{number}": 1.0 for number in range(draw(st.integers(1, 6)))}
    workers = tuple(_fill(draw, rules, cards))
    promises = tuple(_promises(draw, rules, workers))
    seen = Observation(
        cards=tuple(cards),
        workers=workers,
        demands={rule.model: draw(demands) for rule in rules},
    )
    memory = Memory(
        habits={rule.model: draw(habits) for rule in rules},
        promises=promises,
        last_down={rule.model: draw(st.floats(0, 2000)) for rule in rules},
        warm={rule.model: draw(st.floats(9_800, 10_000)) for rule in rules if draw(st.booleans())},
    )
    return Case(seen=seen, policies=rules, memory=memory)


def _fill(draw: st.DrawFn, rules: tuple[Policy, ...], cards: dict[str, float]) -> list[Worker]:
    workers = []
    for number in range(draw(st.integers(0, 12))):
        rule = draw(st.sampled_from(rules))
        able = [card for card, free in cards.items() if free + 1e-9 >= rule.share]
        if not able:
            continue
        card = draw(st.sampled_from(able))
        cards[card] -= rule.share
        workers.append(
            Worker(
                name=f"w{number:02}",
                model=rule.model,
                # Now and then nobody knows yet where it is.
                card=draw(st.sampled_from((card, card, card, ""))),
                share=rule.share,
                state=draw(st.sampled_from(("busy", "busy", "idle", "loading", "draining"))),
                for_s=draw(st.floats(0, 4000)),
                left_s=draw(seconds),
            )
        )
    return workers


def _promises(
    draw: st.DrawFn, rules: tuple[Policy, ...], workers: tuple[Worker, ...]
) -> list[Promise]:
    draining = sorted({each.card for each in workers if each.state == "draining" and each.card})
    if not draining or not draw(st.booleans()):
        return []
    rule = draw(st.sampled_from(rules))
    return [Promise(card=draw(st.sampled_from(draining)), model=rule.model, share=rule.share)]
