"""What it costs the gateway to accept a job, over the least it could cost.

The floor is the three things nobody can leave out: validate the body, insert one row, push
one ticket. Both are measured in CPU seconds of their own process, one job of each in turn, so
that a busy machine and cold caches disturb both alike. A second tenant has every limit set and
up to a hundred jobs waiting; both tenants' calls come in turns of fifty.
`python -m benchmarks.accept`

With `--batch`: what a job costs in a request of thirty, over one that comes alone. The same calls
in turns, CPU seconds of the gateway process, the answer of the request and all its jobs included.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.both_databases import on_both
from benchmarks.figures import figure

JOBS = 2_000
WARM_UP = 200
TARGET = 2.5
AT_ONCE = 50
MOST_WAITING = 100
MOST_ADDED = 1.5
OF_BATCH, BATCHES_AT_ONCE, LAPS = 30, 10, 40
MOST_OF_BATCH = 0.25


def main() -> None:
    if "--batch" in sys.argv:
        on_both("accept_batch", measure_batches, "--batch", module="accept")
    else:
        on_both("accept", measure)


def measure() -> list[dict[str, Any]]:
    """The figures on the database that DATABASE_URL names."""
    from benchmarks import stage

    with stage.redis_server():
        key = stage.prepare()
        with stage.gateway() as gateway:
            whole, floor = _in_turns(key, gateway)
            plain, limited = _by_tenant([key, stage.limited_key()], gateway)
        steps = _steps(key)
    on: dict[str, Any] = {"database": stage.database(), "jobs": JOBS}
    rest = whole - sum(steps.values())
    shares = {
        name: round(us / whole, 3) for name, us in {**steps, "server_and_django": rest}.items()
    }
    return [
        figure("accept_floor_ratio", whole / floor, unit="ratio", at_most=TARGET, **on),
        figure("accept_cpu_us", whole, unit="us", floor_us=round(floor, 1), **on),
        figure("accept_limited_cpu_us", limited, unit="us", unlimited_us=round(plain, 1), **on),
        figure("accept_limited_ratio", limited / plain, unit="ratio", at_most=MOST_ADDED, **on),
        figure("accept_step_shares", 1.0, unit="share", steps=shares, **on),
    ]


def measure_batches() -> list[dict[str, Any]]:
    """A job of a batch over a job alone, on the database that DATABASE_URL names."""
    from benchmarks import stage

    with stage.redis_server():
        keys = [stage.prepare(), stage.limited_key()]
        with stage.gateway() as gateway:
            alone, together = _alone_and_together(keys[0], gateway)
            limited_alone, limited = _alone_and_together(keys[1], gateway)
    on: dict[str, Any] = {"database": stage.database(), "batches": LAPS * BATCHES_AT_ONCE}
    ratio, of_limited = together / alone, limited / limited_alone
    return [
        figure("batch_cost_ratio", ratio, unit="ratio", at_most=MOST_OF_BATCH, **on),
        figure("batch_job_cpu_us", together, unit="us", alone_us=round(alone, 1), **on),
        figure("batch_limited_cost_ratio", of_limited, unit="ratio", at_most=MOST_OF_BATCH, **on),
    ]


def _alone_and_together(key: str, gateway: int) -> tuple[float, float]:
    """CPU microseconds a job of the gateway process: submitted alone, and in a batch."""
    import psutil

    from benchmarks import stage
    from foldline.jobs.models import Batch, Event, Job

    (process,) = psutil.Process(gateway).children()
    agent, seeds, used = stage.Agent(key), itertools.count(10**12), [0.0, 0.0]
    for lap in range(-WARM_UP // AT_ONCE, LAPS):
        began = _cpu_s(process.cpu_times())
        for _ in range(AT_ONCE):
            agent.post("/v1/models/sleepy/jobs", body(next(seeds)))
        between = _cpu_s(process.cpu_times())
        for _ in range(BATCHES_AT_ONCE):
            agent.post("/v1/batches", batch_body(seeds))
        if lap >= 0:
            used[0] += between - began
            used[1] += _cpu_s(process.cpu_times()) - between
        # As if workers had done them.
        for each in (Event, Job, Batch):
            each.objects.all().delete()
    return (
        used[0] / (LAPS * AT_ONCE) * 1e6,
        used[1] / (LAPS * BATCHES_AT_ONCE * OF_BATCH) * 1e6,
    )


def batch_body(seeds: Iterator[int]) -> bytes:
    """Thirty of the calls that `body` makes."""
    jobs = [{"model": "sleepy", **json.loads(body(next(seeds)))} for _ in range(OF_BATCH)]
    return json.dumps({"jobs": jobs}).encode()


def _in_turns(key: str, gateway: int) -> tuple[float, float]:
    """CPU microseconds a job: of the gateway process, all threads, and of the floor."""
    import psutil

    from benchmarks import stage

    (process,) = psutil.Process(gateway).children()
    agent, floor = stage.Agent(key), _floor()
    at_floor = 0.0
    before = _cpu_s(process.cpu_times())
    for lap in range(JOBS + WARM_UP):
        if lap == WARM_UP:
            at_floor, before = 0.0, _cpu_s(process.cpu_times())
        agent.post("/v1/models/sleepy/jobs", body(lap))
        began = time.process_time()
        floor()
        at_floor += time.process_time() - began
    through_gateway = _cpu_s(process.cpu_times()) - before
    return through_gateway / JOBS * 1e6, at_floor / JOBS * 1e6


def _by_tenant(keys: Sequence[str], gateway: int) -> list[float]:
    """CPU microseconds a job of the gateway process, for the tenant of each key."""
    import psutil

    from benchmarks import stage
    from foldline.jobs.models import Event, Job

    (process,) = psutil.Process(gateway).children()
    agents, used = [stage.Agent(key) for key in keys], [0.0] * len(keys)
    seeds = itertools.count(10**9)
    for lap in range(-WARM_UP // AT_ONCE, JOBS // AT_ONCE):
        for tenant, agent in enumerate(agents):
            before = _cpu_s(process.cpu_times())
            for _ in range(AT_ONCE):
                agent.post("/v1/models/sleepy/jobs", body(next(seeds)))
            if lap >= 0:
                used[tenant] += _cpu_s(process.cpu_times()) - before
        if lap % (MOST_WAITING // AT_ONCE) == 0:
            # As if workers had done them; nobody has that many requests in a minute either.
            Event.objects.all().delete()
            Job.objects.all().delete()
    return [seconds / JOBS * 1e6 for seconds in used]


def _cpu_s(times: Any) -> float:
    return float(times.user + times.system)


def body(seed: int) -> bytes:
    """About 450 bytes, as agents send. Each seed is another call: equal ones would share a run."""
    sequence = "EVQLLESGGEVKKPGASVKVSCRASGYTFRNYGLTWVRQAPGQGLEWMG" * 6
    return json.dumps(
        {
            "inputs": {"seconds": 0, "echo": sequence},
            "session": "design-round-3",
            "seed": seed,
            "deadline_s": 600,
        }
    ).encode()


def _floor() -> Callable[[], None]:
    """Validate with pydantic, insert one row through a cursor, push one ticket."""
    import redis
    from django.conf import settings
    from django.db import connection
    from pydantic import BaseModel

    from foldline.ids import uuid7
    from foldline.jobs import tickets

    class Call(BaseModel):
        inputs: dict[str, Any]
        session: str
        seed: int
        deadline_s: float

    text = "uuid" if connection.vendor == "postgresql" else "text"
    with connection.cursor() as cursor:
        cursor.execute(
            f"create table floor (id {text} primary key, session text, seed bigint, inputs text)"
        )
    client = redis.Redis.from_url(settings.REDIS_URL)
    ticket = tickets._ticket("floor")
    sent = body(17)

    def accept() -> None:
        call = Call.model_validate_json(sent)
        with connection.cursor() as cursor:
            cursor.execute(
                "insert into floor (id, session, seed, inputs) values (%s, %s, %s, %s)",
                [str(uuid7()), call.session, call.seed, json.dumps(call.inputs)],
            )
        client.lpush("floor", ticket)

    return accept


def _steps(key: str) -> dict[str, float]:
    """CPU microseconds of each step, called by itself in this process."""
    from benchmarks import stage  # noqa: F401 - Django is set up
    from foldline.api.parsing import read_object
    from foldline.api.submit import submission
    from foldline.catalog.selectors import live_model
    from foldline.jobs import tickets
    from foldline.jobs.admission import admit
    from foldline.tenants.services import authenticate

    caller, model = authenticate(key), live_model("sleepy")
    sent = body(17)
    payload = read_object(sent)
    seeds = itertools.count(10**6)

    def call() -> Any:
        each = {**payload, "seed": next(seeds)}
        return submission(caller=caller, model=model, payload=each, headers={})

    return {
        "authenticate": _cpu_us(lambda: authenticate(key)),
        "parse": _cpu_us(lambda: read_object(sent)),
        "validate_and_fingerprint": _cpu_us(call),
        "insert": _cpu_us(lambda: admit(call())) - _cpu_us(call),
        "ticket": _cpu_us(lambda: tickets.send("steps")),
    }


def _cpu_us(step: Callable[[], Any], *, times: int = 1_000) -> float:
    for _ in range(times // 10):
        step()
    began = time.process_time()
    for _ in range(times):
        step()
    return (time.process_time() - began) / times * 1e6


if __name__ == "__main__":
    main()
