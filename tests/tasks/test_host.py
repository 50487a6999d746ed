"""The host with a plugin that behaves: loading, calling, stopping, starting again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tasks.host import DeadlinePassed, NotReady, PluginDied, PluginHost, Progress, Stop, Stopped
from tests.worker_process import PATIENCE_S

WaitFor = Callable[[Callable[[], object]], None]
IsRunning = Callable[[int], bool]
CANCEL = Stop(reason="cancel")


def plugin_pids(host: PluginHost) -> list[int]:
    """Empty between two lives."""
    process = host._process
    if process is None:
        return []
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        return [int(pid) for pid in children.read_text(encoding="ascii").split()]
    except OSError:
        return []


def plugin_pid(host: PluginHost) -> int:
    (pid,) = plugin_pids(host)
    return pid


class Once:
    """A reaction to the first sign of progress, when the plugin surely works."""

    def __init__(self, react: Callable[[], object]) -> None:
        self._react, self._done = react, False

    def __call__(self, job: str, progress: Progress) -> None:
        if not self._done:
            self._done = True
            self._react()


def test_a_loaded_plugin_answers(make_host: Any, make_item: Any, ask: Any) -> None:
    host = make_host("sleepy")
    item = make_item(seconds=0, echo="hello")

    [answer] = ask(host, item)

    assert answer.job == item.job
    assert answer.result == {"echo": "hello", "seed": 7}
    assert answer.error is None
    assert host.peak_rss_bytes > 1_000_000


def test_the_most_that_torch_reserved_is_kept_over_lives(
    make_host: Any, make_item: Any, ask: Any, tmp_path: Path, wait_for: WaitFor
) -> None:
    (tmp_path / "plugin.py").write_text(ON_A_CARD, encoding="utf-8")
    host = make_host("mine", folder=tmp_path, entry="plugin:Plugin")
    wait_for(host.ready.is_set)
    assert host.peak_gpu_bytes == 3

    ask(host, make_item(reserved=9))
    assert host.peak_gpu_bytes == 9
    with pytest.raises(PluginDied):
        ask(host, make_item(reserved=0))
    wait_for(host.ready.is_set)
    assert host.peak_gpu_bytes == 9


ON_A_CARD = """
import os, sys
from types import SimpleNamespace

peak = [3]
cuda = SimpleNamespace(
    is_initialized=lambda: True, device_count=lambda: 1, max_memory_reserved=lambda card: peak[0]
)
sys.modules["torch"] = SimpleNamespace(cuda=cuda, set_num_threads=lambda threads: None)

class Plugin:
    def load(self, context): pass
    def infer(self, inputs, context):
        peak[0] = inputs["reserved"] or os._exit(1)
        return {}
"""


def test_loading_is_timed_by_phase(make_host: Any, wait_for: WaitFor) -> None:
    host = make_host("sleepy", environment={"FOLDLINE_TEST_LOAD_SECONDS": "0.3"})
    wait_for(host.ready.is_set)

    assert host.loaded.phases["sleep"] >= 0.3
    assert {"start_process", "check_weights", "import"} <= set(host.loaded.phases)
    assert host.loaded.seconds == pytest.approx(sum(host.loaded.phases.values()), abs=0.05)
    assert host.loaded.device == "cpu"


def test_an_output_file_is_named_in_the_answer(make_host: Any, make_item: Any, ask: Any) -> None:
    item = make_item(seconds=0, echo="kept", file=True)

    [answer] = ask(make_host("sleepy"), item)

    assert answer.result == {"echo": "kept", "seed": 7, "file": {"$file": "echo.txt"}}
    [file] = answer.files
    assert (file.name, file.media_type) == ("echo.txt", "text/plain")
    assert file.path.read_text() == "kept"


def test_a_batch_is_answered_item_by_item(make_host: Any, make_item: Any, ask: Any) -> None:
    items = [make_item(seconds=0, echo=str(number)) for number in range(5)]

    answers = ask(make_host("sleepy"), *items)

    assert [answer.job for answer in answers] == [item.job for item in items]
    assert [answer.result["echo"] for answer in answers] == ["0", "1", "2", "3", "4"]


def test_progress_is_told_while_the_plugin_works(make_host: Any, make_item: Any, ask: Any) -> None:
    told: list[tuple[str, Progress]] = []
    item = make_item(seconds=0.4, progress=True)

    ask(make_host("sleepy"), item, progress=lambda job, progress: told.append((job, progress)))

    assert {job for job, _ in told} == {item.job}
    fractions = [progress.fraction for _, progress in told]
    assert fractions == sorted(fractions)
    assert told[0][1].stage == "sleep"


def test_without_a_loaded_plugin_nothing_is_started(
    make_host: Any, make_item: Any, wait_for: WaitFor
) -> None:
    host = make_host("sleepy", environment={"FOLDLINE_TEST_LOAD_SECONDS": "3600"})
    wait_for(lambda: host._process is not None)

    with pytest.raises(NotReady):
        host.call([make_item(seconds=0)], seconds_left=lambda: 9, stop=lambda: None, progress=print)


def test_inputs_that_are_no_storable_json_are_refused_and_the_plugin_stays(
    make_host: Any, make_item: Any, ask: Any
) -> None:
    host = make_host("sleepy")

    [answer] = ask(host, make_item(seconds=0, echo="\ud800"))

    assert answer.error["code"] == "invalid_input"
    assert ask(host, make_item(seconds=0))[0].error is None


def test_a_plugin_that_heeds_a_cancel_stays_loaded(
    make_host: Any,
    make_item: Any,
    ask: Any,
    wait_for: WaitFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.host.GRACE_S", PATIENCE_S / 2)
    host = make_host("sleepy")
    wait_for(host.ready.is_set)
    before = plugin_pid(host)
    unwanted = threading.Event()

    with pytest.raises(Stopped) as stopped:
        ask(
            host,
            make_item(seconds=3600, progress=True),
            progress=lambda job, progress: unwanted.set(),
            stop=lambda: CANCEL if unwanted.is_set() else None,
        )

    assert stopped.value.reason == "cancel"
    assert host.ready.is_set()
    assert ask(host, make_item(seconds=0))[0].error is None
    assert plugin_pid(host) == before


def test_cancelling_one_of_a_batch_lets_the_others_finish(
    make_host: Any, make_item: Any, ask: Any
) -> None:
    items = [make_item(seconds=0.3), make_item(seconds=60), make_item(seconds=0.3)]
    unwanted = Stop(reason="cancel", jobs=frozenset({items[1].job}))

    answers = ask(make_host("sleepy"), *items, stop=lambda: unwanted)

    assert [answer.error and answer.error["code"] for answer in answers] == [
        None,
        "cancelled",
        None,
    ]


def test_a_call_that_is_unwanted_from_the_start_is_not_begun(
    make_host: Any, make_item: Any, ask: Any
) -> None:
    with pytest.raises(Stopped):
        ask(make_host("sleepy"), make_item(seconds=60), stop=lambda: CANCEL)


@pytest.mark.parametrize(
    ("seconds", "stop", "expected"),
    [(0.3, None, DeadlinePassed), (PATIENCE_S, Stop(reason="fenced"), Stopped)],
    ids=["deadline", "fence"],
)
def test_a_deadline_or_a_fence_kills_at_once_and_the_plugin_comes_back(
    make_host: Any,
    make_item: Any,
    ask: Any,
    is_running: IsRunning,
    wait_for: WaitFor,
    seconds: float,
    stop: Stop | None,
    expected: type[Exception],
) -> None:
    host = make_host("sleepy")
    wait_for(host.ready.is_set)
    before = plugin_pid(host)
    began = time.monotonic()

    with pytest.raises(expected):
        ask(
            host,
            make_item(seconds=3600),
            seconds=seconds,
            stop=lambda: stop if time.monotonic() - began > 0.2 else None,
        )

    assert not is_running(before)
    assert ask(host, make_item(seconds=0))[0].error is None


def test_an_error_in_a_callback_leaves_no_half_finished_call(
    make_host: Any, make_item: Any, ask: Any
) -> None:
    def failing(job: str, progress: Progress) -> None:
        raise ZeroDivisionError

    host = make_host("sleepy")

    with pytest.raises(ZeroDivisionError):
        ask(host, make_item(seconds=60, progress=True), progress=failing)

    assert ask(host, make_item(seconds=0))[0].error is None


def test_a_plugin_killed_while_idle_is_started_again(
    make_host: Any, make_item: Any, ask: Any, wait_for: WaitFor
) -> None:
    host = make_host("sleepy")
    wait_for(host.ready.is_set)
    before = plugin_pid(host)

    os.kill(before, signal.SIGKILL)
    wait_for(lambda: host.ready.is_set() and plugin_pids(host) not in ([], [before]))

    assert host.broken is None
    assert ask(host, make_item(seconds=0))[0].error is None


def test_a_plugin_killed_from_outside_during_a_call_is_named(
    make_host: Any, make_item: Any, ask: Any, wait_for: WaitFor
) -> None:
    host = make_host("sleepy")
    wait_for(host.ready.is_set)
    kill = Once(partial(os.kill, plugin_pid(host), signal.SIGKILL))

    with pytest.raises(PluginDied) as died:
        ask(host, make_item(seconds=60, progress=True), progress=kill)

    assert died.value.code == "plugin_crashed"
    assert "SIGKILL" in died.value.message


def test_stopping_ends_a_call_in_progress_and_every_process(
    make_host: Any, make_item: Any, ask: Any, is_running: IsRunning, wait_for: WaitFor
) -> None:
    host = make_host("sleepy")
    wait_for(host.ready.is_set)
    pids = [host._process.pid, plugin_pid(host)]
    stop = Once(threading.Thread(target=host.stop).start)

    with pytest.raises(Stopped) as stopped:
        ask(host, make_item(seconds=60, progress=True), progress=stop)

    assert stopped.value.reason == "stopping"
    assert not host.ready.is_set()
    wait_for(lambda: not any(is_running(pid) for pid in pids))


def test_stopping_does_not_wait_for_the_load_and_is_no_failure(
    make_host: Any, is_running: IsRunning, wait_for: WaitFor
) -> None:
    host = make_host("sleepy", environment={"FOLDLINE_TEST_LOAD_SECONDS": "3600"})
    wait_for(lambda: host._process is not None)
    keeper = host._process.pid

    host.stop()

    wait_for(lambda: not is_running(keeper))
    assert host.broken is None


def test_stopping_twice_or_before_the_start_does_no_harm(make_spec: Any) -> None:
    host = PluginHost(make_spec("sleepy"))
    host.stop()
    host.stop()


def test_nothing_is_left_in_the_folder_of_homes(
    make_host: Any, make_spec: Any, wait_for: WaitFor
) -> None:
    host = make_host("sleepy")
    assert host.ready.wait(PATIENCE_S)
    homes = make_spec("sleepy").scratch
    assert len(list(homes.iterdir())) == 1

    host.stop()

    wait_for(lambda: not list(homes.iterdir()))


def test_a_missing_interpreter_is_said_at_once(
    make_host: Any, tmp_path: Path, wait_for: WaitFor
) -> None:
    host = make_host("sleepy", python=tmp_path / "no" / "python")
    wait_for(lambda: host.broken)

    assert host.broken.code == "interpreter_missing"
    assert f"{tmp_path}/no/python" in host.broken.message


def test_a_plugin_that_does_not_load_in_time_is_broken(make_host: Any, wait_for: WaitFor) -> None:
    host = make_host(
        "sleepy", load_timeout_s=0.5, environment={"FOLDLINE_TEST_LOAD_SECONDS": "3600"}
    )
    wait_for(lambda: host.broken)

    assert host.broken.code == "load_timeout"
    assert not host.ready.is_set()


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("raise RuntimeError('no weights here')", "load_failed", "no weights here"),
        ("raise MemoryError", "host_oom", "MemoryError"),
        ("import os; os._exit(7)", "plugin_exited", "exit code 7"),
        ("import ctypes; ctypes.string_at(0)", "plugin_crashed", "SIGSEGV"),
    ],
)
def test_a_failed_first_start_is_named_and_final(
    make_host: Any, tmp_path: Path, wait_for: WaitFor, body: str, code: str, words: str
) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "plugin.py").write_text(
        "class Plugin:\n"
        f"    def load(self, context):\n        print('last words')\n        {body}\n"
        "    def infer(self, inputs, context): return {}\n"
    )

    host = make_host("broken", folder=folder)
    wait_for(lambda: host.broken)

    assert host.broken.code == code
    assert words in host.broken.message
    assert "last words" in host.broken.log
    assert host.failures == 1


def test_after_one_good_start_failing_ones_are_tried_again_and_counted(
    make_host: Any, make_item: Any, ask: Any, tmp_path: Path, wait_for: WaitFor
) -> None:
    folder = tmp_path / "moody"
    folder.mkdir()
    mood = tmp_path / "bad-mood"
    (folder / "plugin.py").write_text(
        "import os\n"
        "class Plugin:\n"
        "    def load(self, context):\n"
        f"        if os.path.exists({str(mood)!r}): raise RuntimeError('in a bad mood')\n"
        "    def infer(self, inputs, context): return {}\n"
    )
    host = make_host("moody", folder=folder)
    wait_for(host.ready.is_set)
    mood.touch()

    os.kill(plugin_pid(host), signal.SIGKILL)
    wait_for(lambda: host.failures >= 2)
    assert host.broken is None
    assert "bad mood" in host.last_failure.message
    mood.unlink()

    assert ask(host, make_item())[0].result == {}
    assert host.failures == 0
