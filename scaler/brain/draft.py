"""The pool as it will be once the orders so far are carried out. Only `decision` and
`moves` write on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from scaler.brain.elastic import Crew
from scaler.brain.placement import EPS, DrainPlan, Resident, Room, fit
from scaler.brain.plan import Drain, Promise, Start, Stop
from scaler.brain.policy import Policy
from scaler.brain.views import Worker


class Draft:
    """Workers by model, room by card, and the orders given. It never orders a busy one away."""

    def __init__(
        self,
        *,
        cards: Iterable[str],
        workers: Sequence[Worker],
        policies: Mapping[str, Policy],
        promises: Iterable[Promise],
    ) -> None:
        self._policies = policies
        self.free = {card: 1.0 for card in sorted(cards)}
        self.promises = [each for each in promises if each.card in self.free]
        self.starts: list[Start] = []
        self.stops: list[Stop] = []
        self.drains: list[Drain] = []
        self._staying: dict[str, list[Worker]] = {model: [] for model in policies}
        self._coming: list[Worker] = []
        self._leaving: list[Worker] = []
        # Those whose card is known first: the others then go where there is room.
        for worker in sorted(workers, key=lambda each: (not each.card, each.name)):
            self._seat(worker)

    def _seat(self, worker: Worker) -> None:
        card = worker.card
        if not card:
            rooms = [Room(card=name, free=free) for name, free in self.free.items()]
            card = fit(rooms, share=worker.share) or max(
                self.free, key=lambda name: self.free[name], default=""
            )
        # A card that was taken away holds no room of ours; its worker finishes there.
        if card in self.free:
            self.free[card] -= worker.share
        seated = worker if worker.card else replace(worker, card=card)
        if worker.state == "draining":
            self._leaving.append(seated)
        else:
            self._staying.setdefault(worker.model, []).append(seated)

    def workers(self, model: str) -> list[Worker]:
        """Those that stay, and those ordered."""
        return [
            *self._staying.get(model, ()),
            *(each for each in self._coming if each.model == model),
        ]

    def promised(self, model: str) -> list[Promise]:
        return [each for each in self.promises if each.model == model]

    def size(self, model: str) -> int:
        """Workers that stay, and those a card is promised for."""
        return len(self.workers(model)) + len(self.promised(model))

    def present(self, model: str) -> Crew:
        """The model's workers as bids see them."""
        workers = self.workers(model)
        return Crew(
            busy=tuple(each.left_s for each in workers if each.state == "busy"),
            loading=tuple(each.left_s for each in workers if each.state == "loading"),
            idle=tuple(sorted(each.for_s for each in workers if each.state == "idle")),
        )

    def crew(self, policy: Policy) -> Crew:
        """The same with each promised card as a worker that loads."""
        present = self.present(policy.model)
        coming = (self.wait_s(each.card) + policy.cold_s for each in self.promised(policy.model))
        return replace(present, loading=(*present.loading, *coming))

    def wait_s(self, card: str) -> float:
        """Seconds until everybody who leaves this card has left."""
        return max((each.left_s for each in self._leaving if each.card == card), default=1.0)

    def unheld(self) -> float:
        """Cards that no worker at work, loading or leaving is on, and none is promised."""
        held = dict.fromkeys(self.free, 0.0)
        leaving = dict.fromkeys(self.free, 0.0)
        for each in self._leaving:
            if each.card in leaving:
                leaving[each.card] += each.share
        for promise in self.promises:
            # What leaves makes the promised room: it is the same room, counted once.
            leaving[promise.card] = max(leaving[promise.card] - promise.share, 0.0)
            held[promise.card] += promise.share
        for each in (*self._everybody_who_stays(), *self._coming):
            if each.state != "idle" and each.card in held:
                held[each.card] += each.share
        return sum(max(0.0, 1 - held[card] - leaving[card]) for card in self.free)

    def rooms(self) -> list[Room]:
        """What is left of each card beside the promises."""
        return [Room(card=card, free=self._left(card)) for card in self.free]

    def _left(self, card: str) -> float:
        return self.free[card] - sum(each.share for each in self.promises if each.card == card)

    def start(self, model: str) -> bool:
        """Order a worker where there is room; False where there is none."""
        policy = self._policies[model]
        card = fit(self.rooms(), share=policy.share)
        if card is not None:
            self._start_on(card, policy)
        return card is not None

    def _start_on(self, card: str, policy: Policy) -> None:
        number = len(self.starts)
        self.starts.append(Start(model=policy.model, card=card))
        self.free[card] -= policy.share
        self._coming.append(
            Worker(
                name=f"(new {number})",
                model=policy.model,
                card=card,
                share=policy.share,
                state="loading",
                left_s=policy.cold_s,
            )
        )

    def send_away(self, name: str) -> None:
        """Stop the worker if it is idle; else it leaves by itself at the end of its job."""
        worker = next(each for each in self._everybody_who_stays() if each.name == name)
        self._staying[worker.model].remove(worker)
        if worker.state == "idle":
            self.stops.append(Stop(worker=name))
            if worker.card in self.free:
                self.free[worker.card] += worker.share
        else:
            self.drains.append(Drain(worker=name))
            self._leaving.append(worker)

    def keep(self, worker: Worker) -> bool:
        """Let one stay that the others were placed without, if its room is still free."""
        card = worker.card or fit(self.rooms(), share=worker.share)
        if card is None or (card in self.free and not self._vacate(card, share=worker.share)):
            return False
        self.stops = [each for each in self.stops if each.worker != worker.name]
        self._seat(replace(worker, card=card))
        return True

    def _vacate(self, card: str, *, share: float) -> bool:
        """Whether there is so much room, if need be by starting others on a card just like it:
        to them one is as good as the other."""
        while self._left(card) + EPS < share:
            moved = next(
                (
                    (number, like)
                    for number, start in enumerate(self.starts)
                    if start.card == card
                    for like in self.free
                    if like != card and self._is_like(like, card, start)
                ),
                None,
            )
            if moved is None:
                return False
            self._restart(*moved)
        return True

    def _is_like(self, like: str, card: str, start: Start) -> bool:
        """Whether `like` has the room that `card` had before this start."""
        before = self._left(card) + self._policies[start.model].share
        return abs(self._left(like) - before) <= EPS

    def _restart(self, number: int, card: str) -> None:
        start, worker = self.starts[number], self._coming[number]
        self.free[start.card] += worker.share
        self.free[card] -= worker.share
        self.starts[number] = replace(start, card=card)
        self._coming[number] = replace(worker, card=card)

    def clear(self, plan: DrainPlan, *, owner: Policy) -> None:
        """Send away who must leave, and keep the card for the owner until they have."""
        for each in plan.leaving:
            self.send_away(each.name)
        if self._left(plan.card) + EPS >= owner.share:
            self._start_on(plan.card, owner)
        else:
            self.promises.append(Promise(card=plan.card, model=owner.model, share=owner.share))

    def redeem(self, promise: Promise) -> bool:
        """Start the owner if its room is free by now; whether it was."""
        if self.free[promise.card] + EPS < promise.share:
            return False
        self.promises.remove(promise)
        self._start_on(promise.card, self._policies[promise.model])
        return True

    def clearing(self, card: str) -> bool:
        """Whether somebody is about to leave this card."""
        return any(each.card == card for each in self._leaving)

    def residents(self, worth: Mapping[str, float]) -> list[Resident]:
        """Everybody who stays and was there before, with what an idle one's stay is worth."""
        return [
            Resident(
                name=each.name,
                model=each.model,
                card=each.card,
                share=each.share,
                idle=each.state == "idle",
                left_s=0.0 if each.state == "idle" else each.left_s,
                worth=worth.get(each.model, 0.0) / (1 + max(0.0, each.for_s) / 60)
                if each.state == "idle"
                else 0.0,
            )
            for each in self._everybody_who_stays()
        ]

    def _everybody_who_stays(self) -> Iterator[Worker]:
        return chain.from_iterable(self._staying.values())
