"""333 agents submit 30 jobs each at the same moment, half of them as one batch, half one by one.

Every call has an idempotency key, and every tenth request is sent twice at once, as impatient
clients do. One tenant in ten has a limit on its requests. Nothing computes: what is asked is that
each request is answered 202, or 429 with the time to come back, and that what was accepted is
there. It ends when all are answered.
`python -m benchmarks.burst`
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any

from benchmarks.both_databases import on_both
from benchmarks.figures import figure

AGENTS, OF_AGENT, TENANTS = 333, 30, 10
PROCESSES = 2
REQUESTS_PER_MINUTE = 600
TWICE_EVERY = 10
TIMEOUT_S, TRIES = 60, 5


def main() -> None:
    on_both("burst", measure)


@dataclass(kw_only=True)
class Told:
    """What the agents were answered. Each writes into its own."""

    statuses: Counter[str] = field(default_factory=Counter)
    """Of jobs: accepted, refused with the time to come back, anything else."""
    fivehundreds: int = 0
    unanswered: int = 0
    """Tries that were cut off; they were sent again with the same key."""
    ids: dict[str, set[str]] = field(default_factory=dict)
    """For each key that was answered, every id that was told for it."""

    def note(self, key: str, job: dict[str, Any] | None, problem: dict[str, Any] | None) -> None:
        self.ids.setdefault(key, set())
        if job is not None:
            self.statuses["accepted"] += 1
            self.ids[key].add(job["id"])
        elif problem and problem["status"] == 429 and problem.get("retry_after_s"):
            self.statuses["refused"] += 1
        else:
            self.statuses["other"] += 1


def measure() -> list[dict[str, Any]]:
    """The figures on the database that DATABASE_URL names."""
    from benchmarks import stage

    with stage.redis_server():
        stage.prepare()
        keys = _keys()
        with stage.gateway(processes=PROCESSES):
            agents = [Agent(number, keys[number % TENANTS]) for number in range(AGENTS)]
            began = time.monotonic()
            with ThreadPoolExecutor(AGENTS) as pool:
                list(pool.map(Agent.run, agents))
            seconds = time.monotonic() - began
    told = [agent.told for agent in agents]
    statuses = sum((each.statuses for each in told), Counter[str]())
    ids = {key: ids for each in told for key, ids in each.ids.items()}
    accepted = {job_id for each in ids.values() for job_id in each}
    other = statuses["other"] + AGENTS * OF_AGENT - len(ids)
    on: dict[str, Any] = {"database": stage.database(), "agents": AGENTS, "jobs_each": OF_AGENT}
    return [
        figure("burst_5xx", sum(e.fivehundreds for e in told), unit="answers", exactly=0, **on),
        figure("burst_lost", _lost(ids), unit="jobs", exactly=0, accepted=len(accepted), **on),
        figure(
            "burst_other", other, unit="jobs", exactly=0,
            refused_429=statuses["refused"], **on,
        ),
        figure("burst_cut_off", sum(e.unanswered for e in told), unit="tries", **on),
        figure("burst_seconds", seconds, unit="s", **on),
        figure("burst_accepted_per_s", len(accepted) / seconds, unit="jobs/s", **on),
    ]  # fmt: skip


def _keys() -> list[str]:
    """An API key of each tenant; the first tenant has a limit."""
    from foldline.tenants.models import Quota
    from foldline.tenants.services import ensure_tenant, issue_key

    tenants = [ensure_tenant(f"agents-{n}", name=f"Agents {n}") for n in range(TENANTS)]
    Quota.objects.create(tenant=tenants[0], requests_per_minute=REQUESTS_PER_MINUTE)
    return [issue_key(tenant, name="burst")[1] for tenant in tenants]


class Agent:
    """Sends its thirty jobs, one request after the other, on a connection that it keeps."""

    def __init__(self, number: int, key: str) -> None:
        self.number = number
        self.key = key
        self.told = Told()

    def run(self) -> None:
        requests = self._batch() if self.number % 2 else self._singles()
        for place, (path, name, body) in enumerate(requests):
            twice = (self.number + place) % TWICE_EVERY == 0
            impatient = threading.Thread(target=self._send, args=(path, name, body))
            if twice:
                impatient.start()
            self._send(path, name, body)
            if twice:
                impatient.join()

    def _singles(self) -> Iterator[tuple[str, str, bytes]]:
        for place in range(OF_AGENT):
            body = json.dumps(self._call(place)).encode()
            yield "/v1/models/sleepy/jobs", self._key_of(place), body

    def _batch(self) -> Iterator[tuple[str, str, bytes]]:
        jobs = [
            {"model": "sleepy", "idempotency_key": self._key_of(place), **self._call(place)}
            for place in range(OF_AGENT)
        ]
        yield "/v1/batches", f"batch-{self.number}", json.dumps({"jobs": jobs}).encode()

    def _call(self, place: int) -> dict[str, Any]:
        echo = f"{self._key_of(place)} " + "EVQLLESGGEVKKPGASVKVSCRASGYTFRNYGLTWVRQAPGQGLEWMG" * 4
        return {"inputs": {"seconds": 0, "echo": echo}, "session": f"agent-{self.number}"}

    def _key_of(self, place: int) -> str:
        return f"job-{self.number}-{place}"

    def _send(self, path: str, name: str, body: bytes) -> None:
        """Until it is answered; a try that is cut off is sent again with the same key."""
        for _ in range(TRIES):
            try:
                status, document = _post(path, body, key=self.key, name=name)
            except (OSError, HTTPException):
                self.told.unanswered += 1
                continue
            self._note(path, name, status, document)
            return
        self.told.statuses["other"] += 1

    def _note(self, path: str, name: str, status: int, document: dict[str, Any]) -> None:
        self.told.fivehundreds += status >= 500
        if path != "/v1/batches":
            self.told.note(name, *((document, None) if status == 202 else (None, document)))
        elif status == 202:
            for place, each in enumerate(document["jobs"]):
                self.told.note(self._key_of(place), each["job"], each["error"])
        else:
            for place in range(OF_AGENT):
                self.told.note(self._key_of(place), None, document)


def _post(path: str, body: bytes, *, key: str, name: str) -> tuple[int, dict[str, Any]]:
    """Status and body. A 429 without the header `Retry-After` counts as anything else."""
    from benchmarks import stage

    connection = HTTPConnection("127.0.0.1", stage.PORT, timeout=TIMEOUT_S)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    try:
        connection.request("POST", path, body=body, headers={**headers, "Idempotency-Key": name})
        answer = connection.getresponse()
        document = json.loads(answer.read())
    finally:
        connection.close()
    if answer.status == 429 and not answer.headers["Retry-After"]:
        document["retry_after_s"] = None
    return answer.status, document


def _lost(ids: Mapping[str, set[str]]) -> int:
    """Accepted ids that the database does not have under the key they were told for, and ids
    beyond the first of a key."""
    from foldline.jobs.models import Job

    stored = {str(job_id): key for job_id, key in Job.objects.values_list("id", "idempotency_key")}
    missing = sum(stored.get(job_id) != key for key, each in ids.items() for job_id in each)
    doubled = sum(max(0, len(each) - 1) for each in ids.values())
    return missing + doubled + len(stored) - len(set(stored.values()))


if __name__ == "__main__":
    main()
