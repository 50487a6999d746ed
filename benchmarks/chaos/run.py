"""One run: an estate, callers, and faults until enough of them have hit something."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from benchmarks.chaos.callers import Caller, Gauge
from benchmarks.chaos.estate import Estate, lease_settings, standing, wait_for
from benchmarks.chaos.evidence import Evidence, gather
from benchmarks.chaos.faults import Faults

CALLERS = 4
PAUSE_S = (1.5, 4.5)
PATIENCE_S = 5.0

AT_WORK = {"kill_worker": 10.0, "kill_plugin": 8.0, "freeze_worker": 2.0, "kill_gateway": 1.5}
AROUND = {
    "empty_redis": 2.0,
    "freeze_redis": 1.0,
    "cut_redis": 1.0,
    "kill_sweeper": 1.0,
    "end_sessions": 1.0,
    "restart_postgres": 1.0,
    "kill_worker": 2.0,
}
# In turns, because a recovery can only be measured while nothing else is broken.
TURN, OF_THEM_AT_WORK = 48, 38


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is broken, and for how long at most. The controls take a part away."""

    effective: int
    seed: int
    limit_s: float
    fence: bool = True
    sweeper: bool = True
    kinds: Sequence[str] = ()
    """Only these faults; empty for all, in turns."""
    drain_s: float = 180.0


@dataclass(frozen=True, kw_only=True)
class Run:
    plan: Plan
    evidence: Evidence
    effective: int
    seconds: float
    times: Mapping[str, float] = field(default_factory=dict)


def run(plan: Plan) -> Run:
    """Break things until the plan is fulfilled, heal, wait until all jobs have ended."""
    began = time.monotonic()
    with standing(fence=plan.fence, sweeper=plan.sweeper) as estate:
        gauge = Gauge(estate, seed=plan.seed)
        callers = [
            Caller(estate, name=f"caller{n}", seed=plan.seed + n, wanted=gauge.wanted)
            for n in range(CALLERS)
        ]
        threads: list[Gauge | Caller] = [gauge, *callers]
        for thread in threads:
            thread.start()
        faults = Faults(
            estate,
            random=Random(plan.seed),
            caller=callers[0],
            lease_s=lease_settings()["lease_s"],
        )
        _break(plan, faults)
        for thread in threads:
            thread.ended.set()
        for thread in threads:
            thread.join()
        _recover(plan, estate, faults)
        return Run(
            plan=plan,
            evidence=gather(estate),
            effective=faults.effective,
            seconds=time.monotonic() - began,
            times=lease_settings(),
        )


def _break(plan: Plan, faults: Faults) -> None:
    random = Random(plan.seed)
    end = time.monotonic() + plan.limit_s
    kind, due = _next_kind(plan, 0, random), time.monotonic()
    while faults.effective < plan.effective and (now := time.monotonic()) < end:
        faults.undo_due()
        faults.replace_dead()
        done = now >= due and faults.do(kind)
        # What finds nothing to aim at for a while gives way to something else.
        if done or now >= due + PATIENCE_S:
            kind = _next_kind(plan, faults.effective, random)
            due = time.monotonic() + random.uniform(*PAUSE_S)
        time.sleep(0.1)


def _next_kind(plan: Plan, effective: int, random: Random) -> str:
    if plan.kinds:
        return random.choice(plan.kinds)
    turn = min(TURN, plan.effective)
    at_work = effective % turn < turn * OF_THEM_AT_WORK // TURN
    weights = AT_WORK if at_work else AROUND
    return random.choices(list(weights), list(weights.values()))[0]


def _recover(plan: Plan, estate: Estate, faults: Faults) -> None:
    faults.undo_due(all_of_it=True)
    estate.heal()
    open_jobs = "select 1 from jobs_job where state in ('queued', 'running') limit 1"
    try:
        wait_for(lambda: not estate.rows(open_jobs), within_s=plan.drain_s, what="an empty line")
    except TimeoutError:
        return  # the checker will say what never ended
