"""What follows from a revision's line, workers and past: its outlook."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime

from foldline.catalog.models import Revision
from foldline.fleet.models import Worker
from foldline.forecasts.assumed import JOB_S
from foldline.forecasts.calibration import factors
from foldline.forecasts.capacity import Crew
from foldline.forecasts.history import Run, Times
from foldline.forecasts.line import Line
from foldline.forecasts.outlook import Outlook, Tail
from foldline.jobs.blocked import Blocked, Facts, blocked_reason
from foldline.jobs.breaker import read
from foldline.jobs.models import Priority, QueueState
from foldline.scheduling.estimate import ServiceTimes
from foldline.scheduling.fairness import CLASS_WEIGHT, DEFAULT_ESTIMATE_GPU_S
from foldline.scheduling.flows import class_of, unknown_flow
from foldline.scheduling.tags import Tags
from foldline.scheduling.walk import Walk, walk

KNOTS = 64
AHEAD = 8  # jobs over which the distance between two of a flow is taken
STOPPED = (Blocked.PAUSED, Blocked.CRASH_LOOPING)


def project(
    revision: Revision,
    queue: QueueState,
    line: Line,
    crew: Crew,
    *,
    times: Times,
    runs: Sequence[Run],
    came: Sequence[tuple[datetime, str]],
    rng: random.Random,
    now: datetime,
) -> tuple[Outlook, Walk]:
    """Play the line forward; gives what is stored of it, and the walk with every place."""
    assumed_s = min(JOB_S[revision.lane], float(revision.run_timeout_s))
    assumed = ServiceTimes().observe(assumed_s, size=0)
    wall, work = (known if known.model.count else assumed for known in (times.wall, times.work))
    cold = crew.cold_start(load_timeout_s=revision.load_timeout_s)
    walked = walk(
        queue.accounts,
        line.flows,
        now=now,
        capacity=crew.capacity(runs, wall=wall, cold=cold, now=now),
        times=work,
        came=came,
        rng=rng,
    )
    blocked = _blocked(revision, queue, crew)
    outlook = Outlook(
        as_of=now,
        waiting=len(walked.places),
        blocked=blocked,
        lost=False,
        share=crew.share,
        assumed_s=assumed_s,
        wall=times.wall,
        work=times.work,
        curves={} if blocked in STOPPED else walked.curves,
        knots=_knots(walked),
        tails={
            **_tails(queue, line, walked, each_gpu_s=_charge_gpu_s(times, crew)),
            **{
                flow: Tail(waiting=len(held.ids), position=None, held_by=held.by)
                for flow, held in line.held.items()
            },
        },
        factors=factors(revision.model_id),
        peak_bytes=crew.peak_bytes,
        memory_bytes=revision.memory_mb * 2**20,
        cold=not crew.loaded(),
        cold_p50_s=round(cold.p50_s, 1),
        cold_p90_s=round(cold.p90_s, 1),
    )
    return outlook, walked


def _blocked(revision: Revision, queue: QueueState, crew: Crew) -> Blocked | None:
    """Why a job that nothing else holds does not run."""
    states = [worker.state for worker in crew.workers]
    idle, busy = states.count(Worker.State.READY), states.count(Worker.State.BUSY)
    breaker = read(queue.breaker).about(str(revision.id))
    return blocked_reason(
        Facts(
            attached=False,
            paused=bool(queue.paused),
            crash_looping=breaker.stops(loaded=idle + busy),
            waits_for_retry=False,
            idle=idle,
            busy=busy,
            loading=len(crew.loading()),
        )
    )


def _charge_gpu_s(times: Times, crew: Crew) -> float:
    """What a flow is charged for its next job."""
    known = times.work.model
    return known.mean_s * crew.share if known.count else DEFAULT_ESTIMATE_GPU_S


def _knots(walked: Walk) -> list[tuple[int, float]]:
    """The work in front along the line, at most 64 places of it and the end."""
    number = len(walked.places)
    picked = sorted({index * number // KNOTS for index in range(KNOTS)}) if number else []
    knots = [(index, round(walked.places[index].ahead_s, 2)) for index in picked]
    return [*knots, (number, round(walked.total_s, 2))]


def _tails(queue: QueueState, line: Line, walked: Walk, *, each_gpu_s: float) -> dict[str, Tail]:
    """Of the flows in line, of those that brought something from before, and, named by their
    class, of those nobody has heard of."""
    tags = Tags(queue.accounts)
    weights = {flow: heads[0].weight for flow, heads in line.flows.items()}
    asleep = {flow: 1.0 for flow in (*tags.awake, *tags.asleep) if flow not in line.held}
    new = {unknown_flow(priority): 1.0 for priority in Priority.values}
    tails = {}
    for flow, weight in {**new, **asleep, **weights}.items():
        step = each_gpu_s / (weight * CLASS_WEIGHT.get(class_of(flow), 1.0))
        position = walked.schedule.place(flow)
        further = walked.schedule.place(flow, beyond=AHEAD * step) - position
        tails[flow.removeprefix(":")] = Tail(
            waiting=len(line.flows.get(flow, ())),
            position=position + 1,
            spacing=1 + further / AHEAD,
        )
    return tails
