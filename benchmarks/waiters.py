"""What a thousand callers who wait cost one gateway process, and how soon they hear.

Five hundred streams and five hundred long polls, each for a job of its own; the forecaster runs,
so that places are told. After twenty quiet seconds every job changes, one commit after another.
Then the same without Redis. `python -m benchmarks.waiters`
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from benchmarks.figures import figure, publish

WAITS = 1_000
IDLE_S = 20.0
AT_ONCE = 50
MOST = {"rss_mb": 60, "threads": 20, "idle_cpu_pct": 2, "wake_p99_s": 1}
UNITS = {"rss_mb": "MB", "threads": "threads", "idle_cpu_pct": "%", "wake_p99_s": "s"}


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.environ["FOLDLINE_MOST_WAITS_OF_TENANT"] = str(2 * WAITS)
    from benchmarks import stage

    with stage.redis_server():
        key = stage.prepare()
        with _forecaster():
            figures = _figures(key, suffix="")
    with _forecaster():
        figures += _figures(key, suffix="_no_redis")
    publish("waiters", figures)


def _figures(key: str, *, suffix: str) -> list[dict[str, Any]]:
    measured = _measure(key)
    more = {"waits": WAITS, "idle_s": IDLE_S, **measured.pop("more")}
    return [
        figure(f"waiters_{name}{suffix}", value, unit=UNITS[name], at_most=MOST[name], **more)
        for name, value in measured.items()
    ]


@contextmanager
def _forecaster() -> Iterator[int]:
    from benchmarks import stage

    with stage.process(sys.executable, "manage.py", "forecaster", ready=lambda: True) as pid:
        yield pid


def _measure(key: str) -> dict[str, Any]:
    import psutil

    from benchmarks import stage

    with stage.gateway() as gateway:
        (process,) = psutil.Process(gateway).children()
        callers = Callers(key, _jobs(key))
        thread = threading.Thread(target=asyncio.run, args=(callers.run(),))
        _warm_up(key, callers.jobs[0])
        rss = process.memory_info().rss
        thread.start()

        callers.wait_until_open()
        cpu, began = sum(process.cpu_times()[:2]), time.monotonic()
        time.sleep(IDLE_S)
        idle = (sum(process.cpu_times()[:2]) - cpu) / (time.monotonic() - began)
        added, threads = process.memory_info().rss - rss, process.num_threads()
        changed = _change_all(callers.jobs)
        thread.join()
    late = sorted(callers.heard[job] - at for job, at in changed.items())
    return {
        "rss_mb": added / 1e6,
        "threads": threads,
        "idle_cpu_pct": 100 * idle,
        "wake_p99_s": late[int(0.99 * len(late))],
        "more": {"wake_p50_s": round(late[len(late) // 2], 3), "wake_max_s": round(late[-1], 3)},
    }


def _jobs(key: str) -> list[UUID]:
    from benchmarks import stage
    from benchmarks.accept import body

    agent = stage.Agent(key)
    first = time.monotonic_ns() // 1000
    made = [
        agent.post(
            "/v1/models/sleepy/jobs", body(first + number).replace(b', "deadline_s": 600', b"")
        )
        for number in range(WAITS)
    ]
    return [UUID(job["id"]) for job in made]


def _warm_up(key: str, job: UUID) -> None:
    """Every thread has answered, and the room is open."""
    from benchmarks import stage

    def ask() -> None:
        agent = stage.Agent(key)
        for _ in range(20):
            agent.get(f"/v1/jobs/{job}")
        agent.get(f"/v1/jobs/{job}?wait=1")

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _change_all(jobs: Sequence[UUID]) -> dict[UUID, float]:
    """Cancel each; when that was committed."""
    from foldline.jobs import services
    from foldline.jobs.models import Job

    tenant_id = Job.objects.values_list("tenant_id", flat=True).get(id=jobs[0])
    committed = {}
    for job_id in jobs:
        services.cancel(tenant_id=tenant_id, job_id=job_id)
        committed[job_id] = time.monotonic()
    return committed


class Callers:
    """Half of them read a stream, half poll again and again; each until its job has ended."""

    def __init__(self, key: str, jobs: Sequence[UUID]) -> None:
        self.jobs = jobs
        self.heard: dict[UUID, float] = {}
        self._key = key
        self._open = 0

    def wait_until_open(self) -> None:
        while self._open < len(self.jobs):
            time.sleep(0.05)
        time.sleep(1)

    async def run(self) -> None:
        waits = []
        for number, job in enumerate(self.jobs):
            wait = self._stream if number % 2 else self._poll
            waits.append(asyncio.create_task(wait(job)))
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0.2)
        await asyncio.gather(*waits)

    async def _stream(self, job: UUID) -> None:
        reader, writer = await self._ask(f"/v1/jobs/{job}/events")
        await reader.readuntil(b"event: state")
        self._open += 1
        await reader.readuntil(b'"cancelled"')
        self.heard[job] = time.monotonic()
        writer.close()

    async def _poll(self, job: UUID) -> None:
        first = True
        while job not in self.heard:
            reader, writer = await self._ask(f"/v1/jobs/{job}?wait=50")
            self._open += first
            first = False
            answer = await reader.read()
            if b'"state":"cancelled"' in answer:
                self.heard[job] = time.monotonic()
            writer.close()

    async def _ask(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        from benchmarks import stage

        reader, writer = await asyncio.open_connection("127.0.0.1", stage.PORT)
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._key}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode())
        return reader, writer


if __name__ == "__main__":
    main()
