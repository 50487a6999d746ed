"""Every act of the hostile plugin ends in a named outcome, and the next job works."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.host import DeadlinePassed, PluginDied, PluginHost, Stop, Stopped
from tests.worker_process import PATIENCE_S

IsRunning = Callable[[int], bool]
WaitFor = Callable[[Callable[[], object]], None]
MIB = 1024 * 1024


def noted_pids(scratch: Path) -> list[int]:
    return [int(line) for line in (scratch / "pids").read_text().split()]


@pytest.fixture
def hostile(make_host: Any) -> PluginHost:
    host: PluginHost = make_host("hostile")
    return host


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.host.GRACE_S", 0.3)


@pytest.fixture
def next_job_works(hostile: PluginHost, make_item: Any, ask: Any) -> Callable[[], None]:
    def check() -> None:
        [answer] = ask(hostile, make_item(act="behave"))
        assert answer.result["act"] == "behave"

    return check


@pytest.mark.parametrize(
    ("act", "code"),
    [
        ("exit_0", "plugin_no_answer"),
        ("exit_3", "plugin_exited"),
        ("raise_system_exit", "plugin_exited"),
        ("segfault", "plugin_crashed"),
        ("kill_itself", "plugin_crashed"),
        ("kill_keeper", "plugin_crashed"),
        ("leave_child_and_exit", "plugin_no_answer"),
        ("write_garbage_everywhere", "protocol_broken"),
        ("write_no_json", "protocol_broken"),
        ("announce_too_much", "protocol_broken"),
        ("forge_nan", "protocol_broken"),
        ("answer_for_another", "model_output_invalid"),
        ("close_answer_pipe", "protocol_broken"),
        ("close_descriptors_and_answer", "plugin_exited"),
    ],
)
def test_an_act_that_ends_the_process_is_named(
    hostile: PluginHost, make_item: Any, ask: Any, next_job_works: Any, act: str, code: str
) -> None:
    with pytest.raises(PluginDied) as died:
        ask(hostile, make_item(act=act))

    assert died.value.code == code
    next_job_works()


@pytest.mark.parametrize(
    ("act", "words"),
    [("exit_3", "exit code 3"), ("raise_system_exit", "exit code 4"), ("segfault", "SIGSEGV")],
)
def test_the_message_says_how_the_process_ended(
    hostile: PluginHost, make_item: Any, ask: Any, act: str, words: str
) -> None:
    with pytest.raises(PluginDied, match=words):
        ask(hostile, make_item(act=act))


@pytest.mark.parametrize(
    "act",
    [
        "hang",
        "leave_child_and_hang",
        "hang_ignoring_sigterm",
        "hang_with_stopped_keeper",
        "suspend_itself",
    ],
)
@pytest.mark.parametrize("reason", ["deadline", "fenced", "cancel"])
@pytest.mark.usefixtures("short_grace")
def test_an_act_that_never_ends_is_ended_with_everything_it_started(
    hostile: PluginHost,
    make_item: Any,
    ask: Any,
    next_job_works: Any,
    is_running: IsRunning,
    act: str,
    reason: Any,
) -> None:
    item = make_item(act=act)
    expected = {
        "leave_child_and_hang": 3,
        "hang_ignoring_sigterm": 2,
        "hang_with_stopped_keeper": 2,
    }

    def started() -> bool:
        pids = item.scratch / "pids"
        return pids.exists() and len(pids.read_text().split()) >= expected.get(act, 1)

    assert hostile.ready.wait(PATIENCE_S)
    with pytest.raises(DeadlinePassed if reason == "deadline" else Stopped):
        hostile.call(
            [item],
            seconds_left=lambda: 0 if reason == "deadline" and started() else PATIENCE_S,
            stop=lambda: Stop(reason=reason) if reason != "deadline" and started() else None,
            progress=lambda job, told: None,
        )

    assert not any(is_running(pid) for pid in noted_pids(item.scratch))
    next_job_works()


def test_a_cancel_asks_with_sigterm_before_it_kills(
    hostile: PluginHost,
    make_item: Any,
    ask: Any,
    next_job_works: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.host.GRACE_S", 6.0)
    item = make_item(act="hang_until_sigterm")
    started = item.scratch / "pids"

    with pytest.raises(Stopped):
        ask(hostile, item, stop=lambda: Stop(reason="cancel") if started.exists() else None)

    assert (item.scratch / "got-sigterm").exists()
    next_job_works()


@pytest.mark.parametrize("act", ["send_half_a_frame", "flood_with_progress"])
def test_an_act_that_talks_without_end_meets_its_deadline(
    hostile: PluginHost, make_item: Any, ask: Any, next_job_works: Any, act: str
) -> None:
    with pytest.raises(DeadlinePassed):
        ask(hostile, make_item(act=act), seconds=0.5)

    next_job_works()


def test_a_plugin_that_does_not_read_cannot_hold_the_host(
    hostile: PluginHost, make_item: Any, ask: Any, next_job_works: Any, wait_for: WaitFor
) -> None:
    [answer] = ask(hostile, make_item(act="tell_pid"))
    os.kill(answer.result["pid"], signal.SIGSTOP)
    stat = Path(f"/proc/{answer.result['pid']}/stat")
    wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")

    with pytest.raises(DeadlinePassed):
        ask(hostile, make_item(act="behave", padding="x" * 16 * MIB), seconds=0.5)

    next_job_works()


@pytest.mark.parametrize(
    ("act", "code"),
    [
        ("return_nan", "model_output_invalid"),
        ("return_list", "model_output_invalid"),
        ("return_object", "model_output_invalid"),
        ("return_cycle", "model_output_invalid"),
        ("return_nul", "model_output_invalid"),
        ("return_surrogate", "model_output_invalid"),
        ("announce_file_only", "model_output_invalid"),
        ("refer_to_strange_file", "model_output_invalid"),
        ("forge_infinity", "model_output_invalid"),
        ("return_too_much", "output_too_large"),
        ("name_file_outside", "model_error"),
        ("raise_error", "model_error"),
        ("claim_worker_lost", "model_error"),
    ],
)
def test_an_answer_that_is_none_is_named_and_the_plugin_stays(
    hostile: PluginHost, make_item: Any, ask: Any, next_job_works: Any, act: str, code: str
) -> None:
    item = make_item(act=act)

    [answer] = ask(hostile, item)

    assert answer.result is None
    assert answer.error["code"] == code
    assert len(json.dumps(answer.error)) < 20_000
    assert "\\u0000" not in json.dumps(answer.error)
    if act not in ("forge_infinity", "claim_worker_lost"):  # forgers go on hanging
        next_job_works()


def test_a_result_that_is_too_large_comes_with_advice(
    hostile: PluginHost, make_item: Any, ask: Any
) -> None:
    [answer] = ask(hostile, make_item(act="return_too_much"))

    assert "context.output" in answer.error["message"]


@pytest.mark.parametrize("act", ["link_out", "hard_link_out"])
def test_a_link_is_no_output_file(
    hostile: PluginHost, make_item: Any, ask: Any, next_job_works: Any, tmp_path: Path, act: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")

    [answer] = ask(hostile, make_item(act=act, paths=[str(secret)]))

    assert answer.error["code"] == "model_output_invalid"
    assert answer.files == ()
    next_job_works()


def test_running_out_of_allowed_memory_is_an_error_of_the_job(
    make_host: Any, make_item: Any, ask: Any
) -> None:
    host = make_host("hostile", address_space_bytes=600 * MIB)

    [answer] = ask(host, make_item(act="allocate"))

    assert answer.error["code"] == "host_oom"
    assert ask(host, make_item(act="behave"))[0].error is None


@pytest.mark.parametrize("act", ["leave_threads", "change_folder", "print_much"])
def test_an_act_that_only_litters_does_no_harm(
    hostile: PluginHost, make_item: Any, ask: Any, next_job_works: Any, act: str
) -> None:
    [answer] = ask(hostile, make_item(act=act))

    assert answer.result == {}
    next_job_works()


def test_the_working_folder_is_the_same_for_every_job(
    hostile: PluginHost, make_item: Any, ask: Any
) -> None:
    before = ask(hostile, make_item(act="behave"))[0].result["cwd"]
    ask(hostile, make_item(act="change_folder"))

    assert ask(hostile, make_item(act="behave"))[0].result["cwd"] == before


@pytest.mark.parametrize("act", ["leave_child", "leave_child_in_own_session"])
def test_a_child_left_by_a_job_ends_with_the_host(
    hostile: PluginHost, make_item: Any, ask: Any, is_running: IsRunning, act: str
) -> None:
    item = make_item(act=act)
    ask(hostile, item)
    assert all(is_running(pid) for pid in noted_pids(item.scratch))

    hostile.stop()

    assert not any(is_running(pid) for pid in noted_pids(item.scratch))


def test_the_environment_holds_no_secret_of_the_worker(
    make_host: Any, make_item: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "NVIDIA_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "20480m")  # without it HAMi bounds nothing

    [answer] = ask(make_host("hostile"), make_item(act="read_environment"))

    assert "s3cret" not in answer.result.values()
    assert answer.result["CUDA_VISIBLE_DEVICES"] == "3"
    assert answer.result["CUDA_DEVICE_MEMORY_LIMIT_0"] == "20480m"
    assert answer.result["OMP_NUM_THREADS"] == "1"
    assert answer.result["HOME"] == answer.result["TMPDIR"]


def test_no_descriptor_of_the_worker_is_inherited(
    hostile: PluginHost, make_item: Any, ask: Any, tmp_path: Path
) -> None:
    with (tmp_path / "open-in-the-worker").open("w") as file:
        os.set_inheritable(file.fileno(), True)  # noqa: FBT003  # takes no keyword
        [answer] = ask(hostile, make_item(act="list_descriptors"))

    targets = [target for target in answer.result.values() if "/proc/" not in target]
    assert all(target.startswith("pipe:") or target == "/dev/null" for target in targets)
    assert len(targets) == 5


def test_a_file_of_the_same_user_cannot_be_hidden_from_a_plugin(
    hostile: PluginHost, make_item: Any, ask: Any, tmp_path: Path
) -> None:
    """Not a wish but the truth that the documentation tells: SQLite and `var/secrets` are safe
    from a plugin only when it runs as another user, or in a container without them."""
    database = tmp_path / "db.sqlite3"
    with sqlite3.connect(database) as connection:
        connection.execute("create table kept (secret text)")
    connection.close()
    database.chmod(0o600)

    [answer] = ask(hostile, make_item(act="read_files", paths=[str(database)]))

    assert answer.result[str(database)].startswith("SQLite format 3")
