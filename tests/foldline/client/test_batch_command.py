"""`foldline batch FOLDER`: resumable, and no item sinks another."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.foldline.client.conftest import Shell
from tests.house import House
from tests.worker_process import wait_until

pytestmark = pytest.mark.processes


def fill(foldline: Shell, **seconds: float) -> Path:
    """A folder with a call per name, none of which was made before."""
    folder = foldline.folder / "calls"
    folder.mkdir(exist_ok=True)
    for name, each in seconds.items():
        inputs = {"seconds": each, "echo": uuid4().hex}
        (folder / f"{name}.json").write_text(json.dumps({"model": "sleepy", "inputs": inputs}))
    return folder


def result(folder: Path, name: str) -> Any:
    return json.loads((folder / "results" / f"{name}.json").read_text())


def test_each_outcome_is_written_and_what_fails_sinks_nothing(
    foldline: Shell, house: House
) -> None:
    folder = fill(foldline, a=0, b=0)
    (folder / "wrong.json").write_text('{"model": "sleepy", "inputs": {"seconds": "x"}}')
    (folder / "unknown.json").write_text('{"model": "nobody", "inputs": {}}')
    (folder / "typo.json").write_text('{"model": "sleepy", "inputs": {}, "seeed": 1}')
    (folder / "broken.json").write_text("{")
    before = house.count("jobs_job")
    done = foldline("batch", "calls", "--json")
    assert done.returncode == 7
    told = {each["name"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert {name: each["outcome"] for name, each in told.items()} == {
        "a": "succeeded",
        "b": "succeeded",
        "broken": "unreadable",
        "typo": "unreadable",
        "unknown": "refused",
        "wrong": "refused",
    }
    asked = json.loads((folder / "a.json").read_text())
    assert result(folder, "a")["result"]["result"]["echo"] == asked["inputs"]["echo"]
    assert result(folder, "wrong")["error"]["code"] == "invalid_input"
    assert house.count("jobs_job") == before + 2


def test_what_is_wrong_is_pointed_at_in_its_own_file(foldline: Shell) -> None:
    folder = fill(foldline, a=0)
    (folder / "wrong.json").write_text('{"model": "sleepy", "inputs": {"seconds": "x"}}')
    (folder / "plain.json").write_text('{"seconds": 0}')
    done = foldline("batch", "calls", "--json")
    told = {each["name"]: each["detail"] for each in map(json.loads, done.stdout.splitlines())}
    assert " /inputs/seconds: wrong_type" in told["wrong"]
    assert told["plain"] == 'a "model" and an object "inputs" are needed, or --model'
    (found,) = result(folder, "wrong")["error"]["errors"]
    assert found["pointer"] == "/inputs/seconds"


def test_what_is_done_is_skipped_and_what_was_changed_is_not(foldline: Shell, house: House) -> None:
    folder = fill(foldline, a=0, b=0)
    assert foldline("batch", "calls").returncode == 0
    before = house.count("jobs_job")
    again = foldline("batch", "calls")
    assert again.returncode == 0
    assert again.stdout.count("was done before") == 2
    assert house.count("jobs_job") == before
    fill(foldline, b=0)
    assert foldline("batch", "calls").returncode == 0
    assert house.count("jobs_job") == before + 1
    assert result(folder, "b")["state"] == "succeeded"


def test_a_killed_batch_goes_on_with_the_same_jobs(foldline: Shell, house: House) -> None:
    folder = fill(foldline, a=0, b=2, c=2.1)
    before = house.count("jobs_job")
    running = foldline.start("batch", "calls")
    wait_until(lambda: (folder / "results" / "a.json").exists())
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert foldline("batch", "calls").returncode == 0
    assert house.count("jobs_job") == before + 3
    assert {result(folder, name)["state"] for name in "abc"} == {"succeeded"}


def test_what_failed_is_tried_again_as_a_new_job(foldline: Shell, house: House) -> None:
    folder = fill(foldline)
    call = {"model": "sleepy", "inputs": {"seconds": 250}, "deadline_s": 0.4}
    (folder / "late.json").write_text(json.dumps(call))
    before = house.count("jobs_job")
    assert foldline("batch", "calls").returncode == 7
    assert foldline("batch", "calls").returncode == 7
    assert house.count("jobs_job") == before + 2


def test_sent_with_something_else_it_is_another_call(foldline: Shell) -> None:
    fill(foldline, a=250)
    assert foldline("batch", "calls", "--session", "one", "--timeout", "0.2").returncode == 9
    other = foldline("batch", "calls", "--session", "two", "--timeout", "0.2")
    assert other.returncode == 9, "no idempotency key is used for two payloads"
    for line in foldline("jobs", "--state", "queued", "--json").stdout.splitlines():
        foldline("cancel", json.loads(line)["id"])
    for line in foldline("jobs", "--state", "running", "--json").stdout.splitlines():
        foldline("cancel", json.loads(line)["id"])


def test_with_a_model_the_files_are_inputs(foldline: Shell) -> None:
    folder = fill(foldline)
    (folder / "x.json").write_text(json.dumps({"seconds": 0, "echo": "plain"}))
    assert foldline("batch", "calls", "--model", "sleepy").returncode == 0
    assert result(folder, "x")["result"]["result"]["echo"] == "plain"


def test_more_than_a_hundred_go_in_chunks(foldline: Shell, house: House) -> None:
    fill(foldline, **{f"n{number:03}": 0 for number in range(103)})
    done = foldline("batch", "calls", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"succeeded"') == 103


def test_a_key_that_is_refused_ends_it_and_says_so(foldline: Shell) -> None:
    fill(foldline, a=0)
    done = foldline("batch", "calls", FOLDLINE_API_KEY="fl_live_wrong")
    assert done.returncode == 4
    assert "not sent" in done.stdout
