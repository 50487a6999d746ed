"""`foldline` as a person and as a script use it, on a real gateway with a real worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.foldline.client.conftest import Shell
from tests.house import House
from tests.redis_server import free_port
from tests.worker_process import wait_until

pytestmark = pytest.mark.processes


def ask(foldline: Shell, name: str = "in.json", **inputs: Any) -> str:
    """Write the inputs of a call that nobody made before; gives the file's name."""
    document = {"seconds": 0, "echo": uuid4().hex, **inputs}
    (foldline.folder / name).write_text(json.dumps(document))
    return name


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    """The one JSON document on stdout."""
    assert done.stdout.count("\n") == 1, done.stdout + done.stderr
    return json.loads(done.stdout)


COMMANDS = ("models", "run", "estimate", "batch", "wait", "cancel", "jobs", "artifacts", "usage")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_does(foldline: Shell, command: str) -> None:
    told = foldline(command, "--help")
    assert told.returncode == 0
    assert "Usage: foldline" in told.stdout
    assert "api-key" not in told.stdout, "a key on the command line can be read by others"


def test_models_are_a_table_or_json(foldline: Shell) -> None:
    assert "sleepy" in foldline("models").stdout
    assert '"seconds"' in foldline("models", "sleepy").stdout
    assert "sleepy" in {model["name"] for model in answer(foldline("models", "--json"))}


@pytest.mark.parametrize("more", [[], ["sleepy"], ["--json"], ["--help"]])
def test_a_reader_that_is_gone_is_no_error_to_talk_about(foldline: Shell, more: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    running = foldline.start("models", *more, stdout=write)
    os.close(write)
    _, said = running.communicate(timeout=120)
    assert (running.returncode, said) == (1, "")


@pytest.mark.parametrize("command", ["run", "estimate"])
def test_a_whole_body_for_inputs_is_told_in_a_line(foldline: Shell, command: str) -> None:
    (foldline.folder / "body.json").write_text('{"inputs": {"seconds": 0}, "seed": 7}')
    done = foldline(command, "sleepy", "-i", "body.json")
    assert done.returncode == 3
    assert done.stderr.startswith("body.json is to hold the inputs themselves")
    assert done.stderr.count("\n") == 1
    as_json = answer(foldline(command, "sleepy", "-i", "body.json", "--json"))
    assert as_json["error"]["code"] == "invalid_request"


def test_run_prints_the_result_and_nothing_else_on_stdout(foldline: Shell) -> None:
    done = foldline("run", "sleepy", "-i", ask(foldline, echo="hä"), "--seed", "5")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"echo": "hä", "seed": 5}
    assert "succeeded" in done.stderr, "elsewhere than on a terminal: a line per change"
    assert "\x1b" not in done.stderr


def test_a_terminal_that_knows_only_ascii_gets_ascii(foldline: Shell) -> None:
    done = foldline("run", "sleepy", "-i", ask(foldline, echo="hä"), PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "h\\xe4" in done.stdout


def test_json_is_one_document_also_for_an_error(foldline: Shell) -> None:
    told = answer(foldline("run", "sleepy", "-i", ask(foldline), "--json"))
    assert told["state"] == "succeeded"
    assert told["files"] == []
    refused = foldline("run", "sleepy", "-i", ask(foldline, seconds="x"), "--json")
    assert refused.returncode == 3
    assert answer(refused)["error"]["errors"][0]["pointer"] == "/inputs/seconds"


def test_inputs_come_from_stdin_too(foldline: Shell) -> None:
    running = foldline.start("run", "sleepy", "-i", "-", stdin=subprocess.PIPE)
    told, _ = running.communicate(json.dumps({"seconds": 0, "echo": "piped"}), timeout=120)
    assert json.loads(told)["echo"] == "piped"


@pytest.mark.parametrize(
    ("arguments", "environment", "code"),
    [
        (["run", "nobody", "-i", "ok.json"], {}, 5),
        (["run", "sleepy", "-i", "missing.json"], {}, 2),
        (["run", "sleepy", "-i", "broken.json"], {}, 3),
        (["run", "sleepy", "-i", "list.json"], {}, 3),
        (["run", "sleepy", "-i", "latin.json"], {}, 3),
        (["run", "sleepy", "-i", "ok.json", "--file", "nonsense"], {}, 2),
        (["run", "sleepy", "-i", "ok.json", "--file", "x=missing"], {}, 2),
        (["run", "sleepy", "-i", "ok.json", "--file", "echo=ok.json"], {}, 2),
        (["run", "sleepy"], {}, 2),
        (["nonsense"], {}, 2),
        (["wait", "019c0000-0000-7000-8000-000000000000"], {}, 5),
        (["cancel", "not-an-id"], {}, 5),
        (["artifacts", "../jobs", "-o", "out"], {}, 5),
        (["batch", "empty"], {}, 2),
        (["models"], {"FOLDLINE_API_KEY": "fl_live_wrong"}, 4),
        (["models"], {"FOLDLINE_API_KEY": ""}, 2),
        (["models"], {"FOLDLINE_API_KEY": "two words"}, 2),
        (["models"], {"FOLDLINE_URL": "nonsense"}, 2),
        (["--key-file", "missing", "models"], {}, 2),
    ],
    ids=str,
)
def test_exit_codes_tell_the_class_of_the_error(
    foldline: Shell, arguments: list[str], environment: dict[str, str], code: int
) -> None:
    (foldline.folder / "ok.json").write_text('{"seconds": 0, "echo": "ok"}')
    (foldline.folder / "broken.json").write_text('{"seconds": ')
    (foldline.folder / "list.json").write_text("[1]")
    (foldline.folder / "latin.json").write_bytes(b'{"echo": "\xe4"}')
    (foldline.folder / "empty").mkdir()
    done = foldline(*arguments, **environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()
    assert done.stdout == ""


def test_a_server_that_is_away_is_8_and_said_while_it_is_tried(foldline: Shell) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    running = foldline.start("--url", url, "models")
    assert running.stderr is not None
    assert "Trying again in" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert running.returncode == 130


def test_a_key_comes_from_a_file(foldline: Shell) -> None:
    (foldline.folder / "key").write_text(foldline.environment["FOLDLINE_API_KEY"] + "\n")
    done = foldline("--key-file", "key", "models", FOLDLINE_API_KEY="")
    assert done.returncode == 0


def test_a_failed_job_is_7_and_says_why(foldline: Shell) -> None:
    done = foldline("run", "sleepy", "-i", ask(foldline, seconds=250), "--deadline", "0.5")
    assert done.returncode == 7
    assert done.stdout == ""
    assert "deadline" in done.stderr.lower() or "start" in done.stderr


def test_who_waits_too_short_is_9_and_goes_on_with_the_same_job(
    foldline: Shell, house: House
) -> None:
    arguments = ("run", "sleepy", "-i", ask(foldline), "--json")
    with house.busy():
        before = house.count("jobs_job")
        early = foldline(*arguments, "--timeout", "0.5")
    assert early.returncode == 9
    assert answer(early)["error"]["code"] == "timed_out"
    assert foldline(*arguments).returncode == 0
    assert house.count("jobs_job") == before + 1


def test_a_killed_run_is_taken_up_by_the_same_command(foldline: Shell, house: House) -> None:
    arguments = ("run", "sleepy", "-i", ask(foldline), "--json")
    with house.busy():
        before = house.count("jobs_job")
        running = foldline.start(*arguments)
        wait_until(lambda: house.count("jobs_job") == before + 1)
        running.send_signal(signal.SIGKILL)
        running.communicate()
    again = foldline(*arguments)
    assert "taken up again" in again.stderr
    assert answer(again)["state"] == "succeeded"
    assert house.count("jobs_job") == before + 1


def test_a_run_after_the_end_of_the_first_is_a_new_one(foldline: Shell) -> None:
    arguments = ("run", "sleepy", "-i", ask(foldline), "--json")
    first, second = answer(foldline(*arguments)), answer(foldline(*arguments))
    assert first["job"] != second["job"]


def test_fresh_makes_a_new_job_whatever_is_open(foldline: Shell, house: House) -> None:
    arguments = ("run", "sleepy", "-i", ask(foldline), "--json")
    with house.busy():
        assert foldline(*arguments, "--timeout", "0.2").returncode == 9
    again = foldline(*arguments, "--fresh")
    assert again.returncode == 0
    assert "taken up" not in again.stderr


def test_another_call_is_another_run(foldline: Shell, house: House) -> None:
    file = ask(foldline)
    with house.busy():
        assert foldline("run", "sleepy", "-i", file, "--timeout", "0.1").returncode == 9
    other = foldline("run", "sleepy", "-i", file, "--seed", "1")
    assert other.returncode == 0
    assert "taken up" not in other.stderr


def test_a_broken_state_file_is_a_new_run(foldline: Shell, house: House) -> None:
    arguments = ("run", "sleepy", "-i", ask(foldline))
    with house.busy():
        assert foldline(*arguments, "--timeout", "0.1").returncode == 9
    (kept,) = (foldline.folder / "state" / "foldline" / "runs").iterdir()
    kept.write_text("{half")
    again = foldline(*arguments)
    assert again.returncode == 0
    assert "taken up" not in again.stderr
    assert list(kept.parent.iterdir()) == []


def test_ctrl_c_leaves_the_job_running_and_says_how_to_take_it_up(
    foldline: Shell, house: House
) -> None:
    with house.busy():
        running = foldline.start("run", "sleepy", "-i", ask(foldline))
        assert running.stderr is not None
        job_id = running.stderr.readline().split()[1]
        running.stderr.readline()  # its first state: it waits now
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=120)
        assert house.job(job_id)[0] == "queued"
    assert running.returncode == 130
    assert f"foldline wait {job_id}" in told
    assert f"foldline cancel {job_id}" in told
    done = foldline("wait", job_id, "--json")
    assert (done.returncode, answer(done)["state"]) == (0, "succeeded")


def test_cancel_stops_a_job_and_wait_tells(foldline: Shell, house: House) -> None:
    job_id = house.accepted(seconds=250)
    assert foldline("cancel", job_id).returncode == 0
    done = foldline("wait", job_id)
    assert done.returncode == 7
    assert "cancelled" in done.stdout


def test_wait_tells_each_job_on_a_line(foldline: Shell, house: House) -> None:
    ids = [house.accepted(), house.accepted()]
    done = foldline("wait", *ids, "--json")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ids


def test_files_of_a_result_are_saved_and_not_fetched_again(foldline: Shell) -> None:
    told = answer(foldline("run", "sleepy", "-i", ask(foldline, file=True), "--json"))
    assert foldline("artifacts", told["job"], "-o", "out").returncode == 0
    saved = foldline.folder / "out" / "echo.txt"
    assert saved.read_text() == told["result"]["echo"]
    before = saved.stat().st_ino
    assert foldline("artifacts", told["job"], "-o", "out").returncode == 0
    assert saved.stat().st_ino == before
    saved.write_text("mine")
    assert foldline("artifacts", told["job"], "-o", "out").returncode == 2
    assert saved.read_text() == "mine"
    assert foldline("artifacts", told["job"], "-o", "out", "--overwrite").returncode == 0
    assert saved.read_text() == told["result"]["echo"]


def test_artifacts_of_an_open_job_are_9(foldline: Shell, house: House) -> None:
    job_id = house.accepted(seconds=250)
    assert foldline("artifacts", job_id, "-o", "out").returncode == 9
    foldline("cancel", job_id)


def test_usage_jobs_and_estimate_are_told(foldline: Shell) -> None:
    file = ask(foldline)
    assert foldline("run", "sleepy", "-i", file, "--session", "s1").returncode == 0
    assert "used" in foldline("usage").stdout
    assert answer(foldline("jobs", "--session", "s1", "--json"))["session"] == "s1"
    other = ask(foldline, "other.json")
    assert "start:" in foldline("estimate", "sleepy", "-i", other).stdout
    assert "has run before" in foldline("estimate", "sleepy", "-i", file).stdout


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    from foldline.client.cli.saving import _target

    files = [{"artifact": f"a{n}", "name": name} for n, name in enumerate(["x.pdb", "X.pdb", ".."])]
    taken: list[Path] = []
    for file in files:
        taken.append(_target(tmp_path, file, taken))
    assert [path.name for path in taken] == ["x.pdb", "X-2.pdb", "a2"]


def test_the_state_folder_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from foldline.client.cli.runs import state_folder

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "foldline" / "runs"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "foldline" / "runs"
