"""What a long line costs: a claim, a walk of the forecaster, reading it, and one more submit.

Everything runs in this process on the real services, from 100 waiting jobs of 100 flows to
100,000. Figures are CPU seconds of this process, as in `benchmarks.accept`; what PostgreSQL's own
process takes meanwhile stands beside them in the table. `python -m benchmarks.depth`
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from benchmarks.both_databases import on_both
from benchmarks.figures import figure

DEPTHS = (0, 100, 1_000, 10_000, 100_000)
ASKED = 10_000
TENANTS = 50  # each with jobs of both classes
WORKERS = 8
PAST_JOBS = 300


def main() -> None:
    on_both("depth", measure)


def measure() -> list[dict[str, Any]]:
    """The figures on the database that DATABASE_URL names."""
    from benchmarks import stage

    stage.prepare()
    line = Line()
    table = []
    for depth in DEPTHS:
        line.grow_to(depth)
        table.append({"waiting": depth, **line.measured()})
    empty, deep = table[0], next(row for row in table if row["waiting"] == ASKED)
    ratio = deep["submit_cpu_ms"] / empty["submit_cpu_ms"]
    on: dict[str, Any] = {"database": stage.database(), "waiting": ASKED, "flows": 2 * TENANTS}
    at_most = {"claim_cpu_ms": 5, "forecast_cpu_ms": 150, "forecast_read_ms": 1}
    return [
        *(
            figure(name, deep[name], unit="ms", at_most=most, **on)
            for name, most in at_most.items()
        ),
        figure("submit_depth_ratio", ratio, unit="ratio", at_most=1.2, **on, table=table),
    ]


class Line:
    """A line of the model `sleepy` that grows, with busy workers and a past."""

    def __init__(self) -> None:
        from foldline.catalog.selectors import live_model
        from foldline.forecasts.forecaster import Forecaster
        from foldline.jobs import tickets
        from foldline.tenants.services import ensure_tenant

        tickets.send = lambda queue, *, count=1: True  # no Redis here
        self.model = live_model("sleepy")
        self.tenants = [ensure_tenant(f"t{n}", name=f"Tenant {n}").id for n in range(TENANTS)]
        self.forecaster = Forecaster()
        self.numbers = itertools.count()
        self.waiting = 0
        self._work_before()

    def _work_before(self) -> None:
        """A past of jobs that took 20 to 40 seconds, and workers that have one now."""
        from foldline.fleet.models import Worker
        from foldline.jobs.models import Attempt, Job

        now = datetime.now(UTC)
        for number in range(WORKERS):
            Worker.objects.create(
                name=f"w{number}",
                revision_id=self.model.revision_id,
                state="busy",
                node="here",
                pid=number,
                started_at=now,
                last_seen=now,
                load_seconds={"total": 20.0 + number},
            )
        jobs = Job.objects.bulk_create(self._row() for _ in range(PAST_JOBS + WORKERS))
        for number, job in enumerate(jobs):
            done = number < PAST_JOBS
            job.state, job.attempt, job.owner = "succeeded" if done else "running", 1, "w"
            job.lease_until, job.started_at = now + timedelta(hours=1), now
        changed = ["state", "attempt", "owner", "lease_until", "started_at"]
        Job.objects.bulk_update(jobs, changed)
        Attempt.objects.bulk_create(
            Attempt(
                job=job,
                number=1,
                worker=f"w{number % WORKERS}",
                started_at=now - timedelta(seconds=20 + number % 21),
                ended_at=now if number < PAST_JOBS else None,
                outcome="succeeded" if number < PAST_JOBS else "",
                gpu_seconds=20 + number % 21,
            )
            for number, job in enumerate(jobs)
        )

    def _row(self) -> Any:
        from foldline.ids import uuid7
        from foldline.jobs.models import Job

        number = next(self.numbers)
        return Job(
            tenant_id=self.tenants[number % TENANTS],
            priority=("interactive", "batch")[number // TENANTS % 2],
            model_id=self.model.model_id,
            revision_id=self.model.revision_id,
            inputs={"seconds": 30},
            normalized_input={"seconds": 30},
            seed=number,
            seed_origin="caller",
            fingerprint=uuid7().hex * 2,
            payload_digest="",
            estimate_gpu_s=20.0 + number % 21,
            input_size=100 + number % 900,
            created_at=datetime.now(UTC),
        )

    def grow_to(self, depth: int) -> None:
        from foldline.jobs.models import Job

        for _ in range(self.waiting, depth, 2_000):
            missing = min(2_000, depth - self.waiting)
            Job.objects.bulk_create(self._row() for _ in range(missing))
            self.waiting += missing
        _analyze()

    def measured(self) -> dict[str, float]:
        from foldline.forecasts.reading import forecasts_kept, prospect_of
        from foldline.jobs.models import Job

        row: dict[str, float] = {}

        def note(name: str, step: Callable[[], object], *, times: int) -> None:
            row[name], server_ms = _cpu_ms(step, times=times)
            if server_ms is not None:
                row[f"{name}_of_server"] = server_ms

        note("forecast_cpu_ms", self.forecaster.walk, times=10)
        gc.freeze()  # what the forecaster remembers no gateway and no worker has to look through
        waiting = Job.objects.filter(state="queued").select_related("attached_to").first()
        job = waiting or Job.objects.select_related("attached_to").latest("id")
        now = datetime.now(UTC)

        def read() -> None:
            forecasts_kept.clear()
            prospect_of(job, now=now)

        note("forecast_read_ms", read, times=100)
        note("forecast_known_ms", lambda: prospect_of(job, now=now), times=500)
        note("submit_cpu_ms", self._submit, times=400)
        if self.waiting:
            note("claim_cpu_ms", self._claim, times=100)
        self.waiting = Job.objects.filter(state="queued").count()
        return {name: round(value, 4) for name, value in row.items()}

    def _submit(self) -> None:
        """What a submit does after its request was read, up to the answer's bytes."""
        from foldline.api.bodies import accepted_body
        from foldline.api.rendering import dump
        from foldline.api.submit import submission
        from foldline.forecasts.reading import prospect_of_new
        from foldline.jobs.services import submit
        from foldline.tenants.services import Caller

        number = next(self.numbers)
        caller = Caller(
            key_id=UUID(int=0), tenant_id=self.tenants[number % TENANTS], scopes=frozenset()
        )
        payload = {"inputs": {"seconds": 30, "echo": "EVQLLESGG" * 30}, "seed": number}
        call = submission(caller=caller, model=self.model, payload=payload, headers={})
        submitted, now = submit(call), datetime.now(UTC)
        prospect, blocked = prospect_of_new(call, submitted.ahead_in_flow, now=now)
        dump(
            accepted_body(self.model, call, submitted, prospect=prospect, blocked=blocked, now=now)
        )

    def _claim(self) -> None:
        from foldline.jobs.services import claim

        assert claim(revision_id=self.model.revision_id, owner="w0")


def _analyze() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("analyze")


def _cpu_ms(step: Callable[[], object], *, times: int) -> tuple[float, float | None]:
    """CPU milliseconds of one step: in this process, and in the server's."""
    for _ in range(max(times // 10, 1)):
        step()
    began, server = time.process_time(), _server_s()
    for _ in range(times):
        step()
    own_ms = (time.process_time() - began) / times * 1e3
    if server is None:
        return own_ms, None
    return own_ms, ((_server_s() or server) - server) / times * 1e3


def _server_s() -> float | None:
    """CPU seconds of the server's process behind this connection; None on SQLite."""
    import psutil
    from django.db import connection

    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        (pid,) = cursor.fetchone()
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
