"""The client on a real gateway with a real worker, sync and async alike."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from foldline.client import (
    Call,
    File,
    FoldlineError,
    JobFailed,
    Patience,
    Refused,
    TimedOut,
    files_in,
)
from tests.house import House
from tests.redis_server import RedisServer

pytestmark = pytest.mark.processes


@pytest.fixture
def client(house: House, connect: Callable[..., Any]) -> Any:
    url = f"http://127.0.0.1:{house.port}"
    return connect(url, house.key, patience=Patience(total_s=120))


def inputs(**more: Any) -> dict[str, Any]:
    """No two are equal calls."""
    return {"seconds": 0, "echo": uuid4().hex, **more}


def test_models_are_listed_and_shown(client: Any) -> None:
    assert {"sleepy", "dice"} <= {model.name for model in client.models()}
    model = client.model("sleepy")
    assert (model.lane, model.limits.run_timeout_s) == ("online", 300)
    assert model.input_schema["required"] == ["seconds"]


def test_run_submits_waits_and_fetches(client: Any) -> None:
    asked = inputs()
    result = client.run("sleepy", asked, seed=7)
    assert result.result == {"echo": asked["echo"], "seed": 7}
    assert client.job(result.job).state == "succeeded"


def test_the_same_key_is_the_same_job(client: Any) -> None:
    asked, key = inputs(), uuid4().hex
    first = client.submit("sleepy", asked, idempotency_key=key)
    assert client.submit("sleepy", asked, idempotency_key=key).id == first.id
    with pytest.raises(Refused) as refused:
        client.submit("sleepy", inputs(), idempotency_key=key)
    assert refused.value.code == "idempotency_key_reused"


def test_without_a_key_each_submit_is_a_job_of_its_own(client: Any) -> None:
    asked = inputs()
    assert client.submit("sleepy", asked).id != client.submit("sleepy", asked).id


def test_an_estimate_queues_nothing(client: Any, house: House) -> None:
    before = house.count("jobs_job")
    told = client.estimate("sleepy", {"seconds": 1})
    assert told.normalized_inputs["echo"] == ""
    assert house.count("jobs_job") == before


def test_waiting_for_all_keeps_the_order(client: Any) -> None:
    slow, quick = client.submit("sleepy", inputs(seconds=1)), client.submit("sleepy", inputs())
    ended = client.wait([slow, quick.id])
    assert [job.id for job in ended] == [slow.id, quick.id]
    assert {job.state for job in ended} == {"succeeded"}


def test_waiting_ends_in_time_and_the_job_goes_on(client: Any) -> None:
    job = client.submit("sleepy", inputs(seconds=250))
    with pytest.raises(TimedOut):
        client.wait([job], timeout_s=0.5)
    assert not client.job(job.id).ended
    client.cancel(job.id)
    (ended,) = client.wait([job])
    assert ended.state == "cancelled"
    with pytest.raises(Refused) as refused:
        client.result(job.id)
    assert refused.value.code == "cancelled"


def test_events_tell_the_way_of_a_job_and_resume(client: Any) -> None:
    job = client.submit("sleepy", inputs(seconds=1, progress=True))
    events = list(client.events(job.id))
    states = [event.data["state"] for event in events if event.kind == "state"]
    assert states[-1] == "succeeded"
    assert list(client.events(job.id, last_id=events[-1].id)) == []


def test_a_failed_job_is_an_error_with_its_problem(client: Any) -> None:
    with pytest.raises(JobFailed) as failed:
        client.run("sleepy", inputs(seconds=250), deadline_s=0.5)
    assert failed.value.code in ("deadline_exceeded", "expired")
    assert failed.value.job.ended


def test_a_file_goes_up_and_comes_down(client: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"x" * 300_000)
    stored = client.upload(tmp_path / "in.txt", name="given.txt")
    assert (stored.name, stored.size) == ("given.txt", 300_000)
    assert client.upload(tmp_path / "in.txt").id == stored.id
    client.download(stored.id, tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "in.txt").read_bytes()


def test_a_file_among_the_inputs_is_uploaded_first(client: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("content")
    with pytest.raises(Refused) as refused:  # the model takes no such field: it says what came
        client.submit("sleepy", inputs(structure={"deep": [File(tmp_path / "in.txt")]}))
    assert refused.value.errors[0].pointer == "/inputs/structure"
    with pytest.raises(FileNotFoundError):
        client.submit("sleepy", inputs(structure=File(tmp_path / "missing")))


def test_files_of_a_result_are_found_and_fetched(client: Any, tmp_path: Path) -> None:
    result = client.run("sleepy", inputs(file=True))
    (file,) = files_in(result.result)
    client.download(file["artifact"], tmp_path / "echo.txt")
    assert hashlib.sha256((tmp_path / "echo.txt").read_bytes()).hexdigest() == file["sha256"]


def test_a_batch_has_an_outcome_for_each_call(client: Any) -> None:
    calls = [
        Call(model="sleepy", inputs=inputs()),
        Call(model="sleepy", inputs={"seconds": "x"}),
        Call(model="nobody", inputs={}),
        Call(model="sleepy", inputs=inputs(), options={"seed": 3}),
    ]
    sent = client.batch(calls, session="mine")
    seen: list[Any] = []
    done = client.follow(sent, seen=seen.append)
    assert [item.index for item in done.jobs] == [0, 1, 2, 3]
    outcomes = [item.job.state if item.job else item.error.code for item in done.jobs]
    assert outcomes == ["succeeded", "invalid_input", "model_not_found", "succeeded"]
    assert {item.job.session for item in done.jobs if item.job} == {"mine"}
    assert seen[-1].ended


def test_a_batch_is_a_hundred_at_most(client: Any) -> None:
    with pytest.raises(ValueError, match="100 calls"):
        client.batch([Call(model="sleepy", inputs={})] * 101)


def test_jobs_are_listed_by_session(client: Any) -> None:
    session = uuid4().hex
    job = client.submit("sleepy", inputs(), session=session)
    assert [each.id for each in client.jobs(session=session).jobs] == [job.id]


def test_usage_is_told(client: Any) -> None:
    client.run("sleepy", inputs())
    told = client.usage(model="sleepy")
    assert told.used.gpu_seconds is not None
    assert told.body["left"]["month"] is None


@pytest.mark.parametrize("call", ["job", "result", "cancel", "artifact"])
def test_an_unknown_id_is_an_error(client: Any, call: str) -> None:
    with pytest.raises(FoldlineError) as error:
        getattr(client, call)(str(uuid4()))
    assert error.value.code in ("job_not_found", "artifact_not_found")


@pytest.fixture
def broken_redis(redis: RedisServer) -> Iterator[RedisServer]:
    redis.kill()
    yield redis
    if redis.process.poll() is not None:
        redis.start()


def test_a_call_while_redis_is_away_is_answered_when_it_is_back(
    client: Any, broken_redis: RedisServer
) -> None:
    job = client.submit("sleepy", inputs())
    assert client.job(job.id).state == "queued"
    broken_redis.start()
    (ended,) = client.wait([job], timeout_s=120)
    assert ended.state == "succeeded"


def test_a_gateway_that_is_started_again_meanwhile_is_not_noticed(
    client: Any, house: House
) -> None:
    job = client.submit("sleepy", inputs(seconds=1))
    gateway = next(each for each in house.processes if each.log.name.startswith("gateway"))
    gateway.running.terminate()
    gateway.running.wait(60)
    house.processes.remove(gateway)
    house.start("gateway", "-m", "gunicorn")
    (ended,) = client.wait([job], timeout_s=120)
    assert ended.state == "succeeded"
