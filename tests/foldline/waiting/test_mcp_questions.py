"""What a call of an MCP tool asks of Django: as few questions as there are things to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pytest

from foldline.catalog.models import Alternative, Revision
from foldline.jobs import pauses, services
from foldline.waiting import app
from foldline.wsgi import application
from tests.foldline.waiting.conftest import Callers, Worker

VERSION = "2026-07-28"


class Listening:
    """Django, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        self.asked.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        return application(environ, start_response)


@pytest.fixture
def django(monkeypatch: pytest.MonkeyPatch) -> Listening:
    listening = Listening()
    monkeypatch.setattr(app.Door.__init__, "__defaults__", (listening,))
    return listening


def call(door: Callers, name: str, **arguments: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": name, "arguments": arguments, "_meta": meta}
    headers = {
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        "Accept": "application/json, text/event-stream",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    told: dict[str, Any] = door.ask("POST", "/mcp", json=body, headers=headers).body["result"]
    return told


def test_waiting_for_many_jobs_asks_for_all_of_them_at_once(
    django: Listening, door: Callers
) -> None:
    ids = [str(door.new_job(sequence="E" * (n + 1))) for n in range(30)]
    django.asked.clear()
    told = call(door, "wait_for_job", job_ids=ids, timeout_s=0.1)["structuredContent"]
    assert [job["job_id"] for job in told["jobs"]] == ids
    assert django.asked == ["GET /v1/tools", "GET /v1/jobs", "GET /v1/jobs"]


def test_each_that_has_succeeded_is_asked_for_its_result(
    django: Listening, door: Callers, worker: Worker
) -> None:
    ids = [str(door.new_job(sequence="E" * (n + 1))) for n in range(3)]
    ended = worker.claim()
    services.finish(ended, result={"score": 1})
    django.asked.clear()
    jobs = call(door, "wait_for_job", job_ids=ids)["structuredContent"]["jobs"]
    assert [job.get("result") for job in jobs if job["job_id"] == str(ended.job_id)] == [
        {"score": 1}
    ]
    assert django.asked == [
        "GET /v1/tools",
        "GET /v1/jobs",
        f"GET /v1/jobs/{ended.job_id}/result",
    ]


def test_an_id_may_be_written_in_any_way_and_is_told_as_it_was_given(
    django: Listening, door: Callers
) -> None:
    job_id = door.new_job()
    ways = [str(job_id), str(job_id).upper(), job_id.hex, f"{{{job_id}}}"]
    django.asked.clear()
    told = call(door, "wait_for_job", job_ids=ways, timeout_s=0)["structuredContent"]
    assert [UUID(job["job_id"]) for job in told["jobs"]] == [job_id] * 4


def test_what_is_no_id_is_asked_of_nobody(django: Listening, door: Callers) -> None:
    told = call(door, "wait_for_job", job_ids=["", "no id"])["structuredContent"]
    assert (told["code"], told["errors"][0]["pointer"]) == ("job_not_found", "/job_ids/0")
    assert django.asked == ["GET /v1/tools"]


def test_a_job_whose_model_is_away_names_others_that_could_serve_it(
    door: Callers, toy: Revision, live_revision: Callable[..., Revision]
) -> None:
    other = live_revision(name="other")
    Alternative.objects.create(model=toy.model, instead=other.model, why="It is as good.")
    job_id = str(door.new_job())
    assert "alternatives" not in call(door, "get_job", job_id=job_id)["structuredContent"]
    pauses.pause(toy.model_id, reason="maintenance")
    told = call(door, "get_job", job_id=job_id)["structuredContent"]
    assert told["alternatives"] == [{"model": "other", "why": "It is as good."}]
    assert "model is paused" in told["message"]
