"""One seeded schedule: a whole platform, and chance deciding what happens next to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from uuid import UUID

from foldline.jobs.retries import RULES
from foldline.jobs.states import OPEN
from tests.simulation.actors import Broker, Gateway, Sweeper, Worker
from tests.simulation.promises import Broken, Promises
from tests.simulation.protocol import HEARTBEAT_S, Protocol
from tests.simulation.tables import NEVER, Call, Tables

STEPS = 400
WORKERS = 3
DRAIN_TICKS = 200
TENANTS = (UUID(int=1), UUID(int=2))
CODES = (*RULES, "unheard_of")


class House:
    """The classes it is built of are attributes, so that a planted bug replaces one."""

    protocol_class = Protocol
    worker_class = Worker
    sweeper_class = Sweeper

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.promises = Promises()
        self.tables = Tables(self.promises)
        self.protocol = self.protocol_class(self.tables, self.promises)
        self.broker = Broker()
        self.gateway = Gateway(self.protocol, self.broker, self.promises)
        self.calls: list[Call] = []
        self.workers: dict[str, Worker] = {}
        self.sweepers: list[Sweeper] = []
        self._hired = 0
        for _ in range(WORKERS):
            self._hire()
        self._start_sweeper()

    def run(self) -> Promises:
        """Let things happen, heal, and wait until all is done. Raises Broken."""
        names = self.random.choices(list(EVENTS), weights=WEIGHTS, k=STEPS)
        for name in names:
            self.promises.met[name] += 1
            EVENTS[name](self)
        self._heal()
        self._drain()
        return self.promises

    # What chance chooses from.

    def call(self) -> None:
        """A caller sends a job, with one of a few keys or none."""
        chance = self.random.random
        key = f"k{int(chance() * 5)}" if chance() < 0.6 else ""
        call = Call(
            TENANTS[chance() < 0.5],
            key,
            payload=int(chance() < 0.1),
            priority="batch" if chance() < 0.3 else "interactive",
            start_by=self.tables.now + 40 if chance() < 0.1 else NEVER,
        )
        self._send(call)

    def _send(self, call: Call) -> None:
        self.protocol.look(call)
        self.calls.append(call)

    def commit(self) -> None:
        """A gateway goes on with a call; it may be killed after the commit, or its answer lost."""
        if not self.calls:
            return
        call = self.calls.pop(self.random.randrange(len(self.calls)))
        publish = self.random.random() < 0.8
        answer = publish and self.random.random() < 0.8
        if not self.gateway.serve(call, publish=publish, answer=answer) and call.key:
            self._send(call)

    def cancel(self) -> None:
        if self.tables.rows:
            row = self.random.choice(list(self.tables.rows.values()))
            self.gateway.cancel(row, answer=self.random.random() < 0.9)

    def deliver(self) -> None:
        free = [w for w in self.workers.values() if not w.ticket and not w.fence and not w.frozen]
        if free and self.broker.up and self.broker.ready > 0:
            self.random.choice(free).take_ticket()

    def work(self) -> None:
        if worker := self._one_of([w for w in self._awake() if w.ticket or w.fence]):
            worker.step()

    def fail(self) -> None:
        if worker := self._one_of([w for w in self._awake() if w.fence]):
            worker.fail(self.random.choice(CODES))

    def kill_worker(self) -> None:
        worker = self.random.choice(list(self.workers.values()))
        del self.workers[worker.name]
        self._hire()

    def freeze_worker(self) -> None:
        awake = self._awake()
        if worker := self._one_of([w for w in awake if w.fence] or awake):
            worker.freeze()

    def thaw_worker(self) -> None:
        if worker := self._one_of([w for w in self.workers.values() if w.frozen]):
            worker.frozen = False
            if worker.fence and self.random.random() < 0.5:
                worker.step()  # before its first beat

    def tick(self) -> None:
        """A heartbeat's time passes: the workers beat and the sweepers sweep, in any order."""
        self.tables.now += HEARTBEAT_S
        turns: list[Callable[[], None]] = [worker.beat for worker in self._awake()]
        turns += [partial(sweeper.sweep, self.workers) for sweeper in self.sweepers]
        self.random.shuffle(turns)
        for turn in turns:
            turn()

    def long_time(self) -> None:
        for _ in range(7):
            self.tick()

    def broker_down(self) -> None:
        self.broker.up = False

    def broker_up(self) -> None:
        self.broker.up = True

    def broker_empty(self) -> None:
        self.broker.restart_empty()

    def broker_duplicates(self) -> None:
        self.broker.ready += self.broker.ready > 0

    def broker_redelivers(self) -> None:
        self.broker.redeliver()

    def database_down(self) -> None:
        self.tables.up = False

    def database_up(self) -> None:
        self.tables.up = True

    def database_outage(self) -> None:
        """Long enough for every lease to pass."""
        self.database_down()
        self.long_time()
        self.database_up()

    def kill_sweeper(self) -> None:
        if self.sweepers:
            self.sweepers.pop()

    def start_sweeper(self) -> None:
        if len(self.sweepers) < 2:
            self._start_sweeper()

    # What the events are made of.

    def _awake(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if not worker.frozen]

    def _one_of(self, workers: list[Worker]) -> Worker | None:
        return self.random.choice(workers) if workers else None

    def _hire(self) -> None:
        self._hired += 1
        skew = self.random.choice((0.0, 0.0, -3600.0, 3600.0))
        name = f"w{self._hired}"
        self.workers[name] = self.worker_class(
            name, skew, self.protocol, self.broker, self.promises
        )

    def _start_sweeper(self) -> None:
        self.sweepers.append(self.sweeper_class(self.protocol, self.broker))

    def _heal(self) -> None:
        self.broker.up = True
        self.database_up()
        self.start_sweeper()
        for worker in self.workers.values():
            worker.frozen = False
        while self.calls:
            self.gateway.serve(self.calls.pop(), publish=True, answer=True)

    def _drain(self) -> None:
        for _ in range(DRAIN_TICKS):
            for worker in self.workers.values():
                if not worker.ticket and not worker.fence and self.broker.ready > 0:
                    worker.take_ticket()
                for _ in range(3):
                    if worker.ticket or worker.fence:
                        worker.step()
            if all(row.state not in OPEN for row in self.tables.rows.values()):
                break
            self.tick()
        self.promises.drained(self.tables.rows.values())


EVENTS: dict[str, Callable[[House], None]] = {
    "call": House.call,
    "commit": House.commit,
    "cancel": House.cancel,
    "deliver": House.deliver,
    "work": House.work,
    "fail": House.fail,
    "kill_worker": House.kill_worker,
    "freeze_worker": House.freeze_worker,
    "thaw_worker": House.thaw_worker,
    "tick": House.tick,
    "long_time": House.long_time,
    "broker_down": House.broker_down,
    "broker_up": House.broker_up,
    "broker_empty": House.broker_empty,
    "broker_duplicates": House.broker_duplicates,
    "broker_redelivers": House.broker_redelivers,
    "database_down": House.database_down,
    "database_up": House.database_up,
    "database_outage": House.database_outage,
    "kill_sweeper": House.kill_sweeper,
    "start_sweeper": House.start_sweeper,
}
WEIGHTS = (9, 9, 3, 12, 24, 3, 2, 2, 1, 7, 2, 1, 3, 1, 1, 1, 1, 3, 1, 0.5, 3)


def violation(seed: int, house: type[House] = House) -> str | None:
    """The promise that this seed breaks, or None."""
    try:
        house(seed).run()
    except Broken as broken:
        return str(broken)
    return None
