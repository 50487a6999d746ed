"""The forecasts of a running Foldline beside those of the replay, on the same calls.

A stretch of a generated trace, ten times as fast, is sent to a gateway with a forecaster, a
sweeper and two workers whose model sleeps as long as the trace says. What each caller was told
at submit is compared with what came, and so is what the replay told of the same calls. While
jobs wait their places are read again and again. `python -m benchmarks.eta_live`
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from benchmarks import stage
from benchmarks.figures import SEED, figure, publish
from benchmarks.replay import Pool, Replay
from benchmarks.traces import Call, Trace, steady

FASTER = 10
LASTS_S = 240.0
WORKERS = 2
BUSY = (0.9, 1.3)  # work that comes, over what the workers can do meanwhile
LEARNING = 40  # the first calls, before which nothing is known of the model
SHORTEST_WAIT_S = 2.0
"""Who starts within a walk of the forecaster was told of no wait by the replay."""

LONG_WAIT_S = 30.0
LOOK_EVERY_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a caller was told and what came, in seconds after the submit."""

    p50_s: float
    p90_s: float
    wait_s: float


def main() -> None:
    trace = a_busy_stretch()
    live, rises = played(trace)
    replayed = [_of_replay(job) for job in Replay(
        trace=trace, pool=Pool(most=WORKERS, elastic=False), seed=SEED
    ).run()[LEARNING:] if job.told is not None]  # fmt: skip
    on: dict[str, Any] = {"workers": WORKERS, "calls": len(trace.calls)}
    gap = abs(coverage(live) - coverage(replayed))
    publish(
        "eta_live",
        [
            figure("live_coverage_gap", gap, unit="share", at_most=0.10, **on),
            figure("live_p90_coverage", coverage(live), unit="share", jobs=len(live), **on),
            figure("replayed_p90_coverage", coverage(replayed), unit="share", jobs=len(replayed)),
            figure("live_mape", error(live), unit="share", **on),
            figure("replayed_mape", error(replayed), unit="share"),
            figure("unexplained_rises", rises, unit="positions", exactly=0, **on),
        ],
    )


def a_busy_stretch() -> Trace:
    """The start of the first trace whose calls keep the workers about as busy as they can be."""
    for seed in range(SEED, SEED + 1000):
        calls = steady(seed, days=LASTS_S * FASTER / 86_400).calls
        fast = [
            replace(call, at_s=call.at_s / FASTER, seconds=call.seconds / FASTER) for call in calls
        ]
        busy = sum(call.seconds for call in fast) / (WORKERS * LASTS_S)
        if BUSY[0] <= busy <= BUSY[1] and len(fast) > 2 * LEARNING:
            return Trace(calls=tuple(fast))
    raise RuntimeError("no trace is busy enough")


def coverage(outcomes: Sequence[Outcome]) -> float:
    """The part that started before its p90."""
    return sum(each.wait_s <= each.p90_s for each in outcomes) / len(outcomes)


def error(outcomes: Sequence[Outcome]) -> float:
    """Mean of |p50 - wait| / wait over long waits."""
    long = [each for each in outcomes if each.wait_s >= LONG_WAIT_S]
    return sum(abs(each.p50_s - each.wait_s) / each.wait_s for each in long) / max(len(long), 1)


def _of_replay(job: Any) -> Outcome:
    waited = job.call.at_s + job.wait_s - job.told.at_s
    return Outcome(p50_s=job.told.p50_s, p90_s=job.told.p90_s, wait_s=waited)


def played(trace: Trace) -> tuple[list[Outcome], int]:
    """What callers of the real stack were told and got, and how often a place rose unexplained."""
    with a_foldline() as keys:
        agents = {tenant: stage.Agent(key) for tenant, key in keys.items()}
        places = Places(agents)
        told = [each for each in _sent(trace.calls, agents, places)]
        while _open():
            places.look()
            time.sleep(LOOK_EVERY_S)
        return list(_outcomes(told[LEARNING:])), places.rises


@contextmanager
def a_foldline() -> Iterator[dict[str, str]]:
    """Redis, a gateway, a sweeper, a forecaster and two workers; gives each tenant's key."""
    import sys

    from benchmarks.traces import TENANTS
    from foldline.catalog.models import Revision
    from foldline.fleet.models import Worker
    from foldline.tenants.services import ensure_tenant, issue_key

    def loaded(number: int) -> bool:
        return Worker.objects.filter(state="ready").count() >= number

    with ExitStack() as running:
        running.enter_context(stage.redis_server())
        stage.prepare()
        Revision.objects.update(max_batch_size=1)
        running.enter_context(stage.gateway())
        running.enter_context(stage.sweeper())
        forecaster = (sys.executable, "manage.py", "forecaster")
        running.enter_context(stage.process(*forecaster, ready=lambda: True))
        for number in range(1, WORKERS + 1):
            running.enter_context(
                stage.worker("sleepy", ready=lambda number=number: loaded(number))  # type: ignore[misc]
            )
        yield {
            name: issue_key(ensure_tenant(name.lower(), name=name), name="bench")[1]
            for name in TENANTS
        }


class Places:
    """Places as callers see them, again and again."""

    def __init__(self, agents: dict[str, stage.Agent]) -> None:
        self._agents = agents
        self._last: dict[str, int] = {}
        self._looked_at = time.monotonic()
        self.rises = 0

    def look_if_due(self) -> None:
        if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
            self.look()

    def look(self) -> None:
        self._looked_at = time.monotonic()
        for agent in self._agents.values():
            for job in agent.get("/v1/jobs?state=queued&limit=100")["jobs"]:
                self.note(job)

    def note(self, job: dict[str, Any]) -> None:
        position, reason = job["queue"]["position"], job["queue"]["reason"]
        if position is None:
            return
        before = self._last.get(job["id"], position)
        if position > before and reason is None:
            self.rises += 1
        self._last[job["id"]] = position


def _sent(
    calls: Iterable[Call], agents: dict[str, stage.Agent], places: Places
) -> Iterator[dict[str, Any]]:
    """Each call at its time; gives the answers."""
    import json

    began = time.monotonic()
    for number, call in enumerate(calls):
        while (early := began + call.at_s - time.monotonic()) > 0:
            places.look_if_due()
            time.sleep(min(early, 0.2))
        inputs = {"seconds": round(call.seconds, 3), "echo": "E" * call.size}
        body = {"inputs": inputs, "priority": call.priority, "seed": number}
        answer = agents[call.tenant].post("/v1/models/sleepy/jobs", json.dumps(body).encode())
        places.note(answer)
        yield answer


def _open() -> bool:
    from foldline.jobs.models import Job

    return Job.objects.filter(state__in=["queued", "running"]).exists()


def _outcomes(told: Iterable[dict[str, Any]]) -> Iterator[Outcome]:
    from foldline.jobs.models import Attempt

    firsts = Attempt.objects.filter(number=1).values_list("job_id", "started_at")
    started = {str(job_id): at for job_id, at in firsts}
    for answer in told:
        came, eta = _time(answer["created_at"]), answer["eta"]
        wait_s = (started[answer["id"]] - came).total_seconds()
        if wait_s >= SHORTEST_WAIT_S and eta["start_p50"] is not None:
            p50, p90 = (_time(eta[name]) for name in ("start_p50", "start_p90"))
            yield Outcome(
                p50_s=(p50 - came).total_seconds(),
                p90_s=(p90 - came).total_seconds(),
                wait_s=wait_s,
            )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


if __name__ == "__main__":
    main()
