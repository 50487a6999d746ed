"""Callers of the gateway: with and without idempotency keys, impatient, and full of retries.

Every request that may make a job carries a token as its session: whatever became of the
answer, the jobs of one token are at most one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from itertools import count
from random import Random
from typing import Any

import psycopg

from benchmarks.chaos.estate import Estate
from benchmarks.chaos.history import History

TIMEOUT_S = 3.0
TRIES = 8
SHARED_TEXTS = 3


class Caller(threading.Thread):
    """Submits while `wanted` says so, and looks again at what it has submitted."""

    def __init__(self, estate: Estate, *, name: str, seed: int, wanted: Callable[[], bool]) -> None:
        super().__init__(name=name, daemon=True)
        self.ended = threading.Event()
        self._port, self._key = estate.port, estate.key
        self._fence = estate.fence
        self._random = Random(seed)
        self._wanted = wanted
        self._history = History(estate.histories, name)
        self._numbers = count(1)
        self._jobs: list[str] = []

    def run(self) -> None:
        while not self.ended.wait(self._random.uniform(0.05, 0.3)):
            if self._wanted():
                self._submit()
            if self._jobs and self._random.random() < 0.3:
                self._look(self._random.choice(self._jobs[-40:]))

    def burst(self, size: int) -> list[threading.Thread]:
        """Several submits at once, one request each."""
        threads = [
            threading.Thread(target=self._request, args=(self._token(), "", self._body()))
            for _ in range(size)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _submit(self) -> None:
        chance = self._random.random()
        if chance < 0.6:
            self._submit_with_key()
        else:
            self._request(self._token(), "", self._body())
        if self._jobs and self._random.random() < 0.1:
            self._cancel(self._random.choice(self._jobs[-4:]))

    def _submit_with_key(self) -> None:
        """The same request until it is answered; sometimes twice at once, or altered later."""
        token, body = self._token(), self._body()
        twin = threading.Thread(target=self._request, args=(token, token, body))
        twice = self._random.random() < 0.2
        if twice:
            twin.start()
        for _ in range(TRIES):
            if self._request(token, token, body) or self.ended.wait(0.3):
                break
        if twice:
            twin.join()
        if self._random.random() < 0.1:
            other = {**body, "seconds": body["seconds"] + 1}
            self._request(token, token, other, altered=True)

    def _token(self) -> str:
        return f"{self.name}-{next(self._numbers)}"

    def _body(self) -> dict[str, Any]:
        """Mostly calls that are like no other; a few are equal and share a run."""
        shared = self._random.random() < 0.1
        text = f"shared {self._random.randrange(SHARED_TEXTS)}" if shared else ""
        return {
            "seconds": 1.0 if shared else round(self._random.uniform(0.5, 4.0), 2),
            "echo": text or f"{self.name} {next(self._numbers)}",
            # Without a fence a second result would collide with the files of the first.
            "file": self._fence and self._random.random() < 0.5,
        }

    def _request(
        self, token: str, key: str, inputs: dict[str, Any], *, altered: bool = False
    ) -> bool:
        """One submit; True when it was answered for good (not by an outage or a timeout)."""
        self._history.write("submit", token=token, key=key)
        headers = {"Idempotency-Key": key} if key else {}
        body = {"inputs": inputs, "session": token}
        status, answer = self._ask("POST", "/v1/models/sleepy/jobs", body, headers)
        told = {"token": token, "key": key, "status": status, "altered": altered}
        self._history.write("submitted", **told, job=answer.get("id"))
        if status in (200, 202) and not altered:
            self._jobs.append(answer["id"])
        return 200 <= status < 500

    def _look(self, job: str) -> None:
        status, answer = self._ask("GET", f"/v1/jobs/{job}", None, {})
        if status in (200, 404):
            self._history.write("seen", job=job, status=status, state=answer.get("state"))

    def _cancel(self, job: str) -> None:
        self._history.write("cancel", job=job)
        status, answer = self._ask("POST", f"/v1/jobs/{job}/cancel", {}, {})
        if status == 200:
            self._history.write("cancel_answered", job=job, state=answer["state"])

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        """Status and answer; status 0 when there was none."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        own = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, body=content, headers={**own, **headers})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, HTTPException, ValueError):
            return 0, {}
        finally:
            connection.close()


class Gauge(threading.Thread):
    """Lets the callers keep a few jobs open, so that a worker is often idle; in an outage
    they always call."""

    def __init__(self, estate: Estate, *, seed: int) -> None:
        super().__init__(name="gauge", daemon=True)
        self.ended = threading.Event()
        self._estate = estate
        self._random = Random(seed)
        self._open, self._most = 0, 2

    def wanted(self) -> bool:
        return self._open < self._most

    def run(self) -> None:
        while not self.ended.wait(0.2):
            if self._random.random() < 0.03:
                self._most = self._random.choice((1, 1, 2, 2, 3))
            try:
                self._open = self._estate.count_open()
            except psycopg.OperationalError:
                self._open = 0
