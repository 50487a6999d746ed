"""The runner as a process of its own, spoken to over its pipes."""

from __future__ import annotations

import hashlib
import os
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from model_plugins import frames
from model_plugins.frames import Frame

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120

ECHO = """
class Plugin:
    def load(self, context): self.context = context
    def infer(self, inputs, context): return {"echo": dict(inputs), "seed": context.seed}
"""


class Runner:
    def __init__(self, scratch: Path, *, keeper: int, path: Path) -> None:
        reads, self._writes = os.pipe()
        self._reads, writes = os.pipe()
        self.scratch = scratch
        self.process = subprocess.Popen(
            [sys.executable, "-m", "model_plugins.runner", str(reads), str(writes), str(keeper)],
            pass_fds=(reads, writes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=scratch,
            text=True,
            env={"PYTHONPATH": f"{ROOT}:{path}", "PYTHONSAFEPATH": "1"},
        )
        os.close(reads)
        os.close(writes)

    def tell(self, kind: str, **fields: Any) -> None:
        os.write(self._writes, frames.encode(kind, **fields))

    def hear(self) -> Frame:
        length = frames.body_length(self._exactly(frames.HEADER.size))
        return frames.decode(self._exactly(length))

    def ask(
        self, *inputs: dict[str, Any], call: int = 1, ran_out: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        self.begin(*inputs, call=call, ran_out=ran_out)
        done = self.hear()
        assert (done["type"], done["call"]) == ("done", call)
        items: list[dict[str, Any]] = done["items"]
        return items

    def begin(
        self, *inputs: dict[str, Any], call: int = 1, ran_out: dict[str, Any] | None = None
    ) -> None:
        items = [
            {
                "job": f"job-{number}",
                "attempt": 1,
                "inputs": each,
                "seed": 5,
                "scratch": str(self.scratch),
                "checkpoints": str(self.scratch),
                "ran_out": ran_out,
            }
            for number, each in enumerate(inputs)
        ]
        self.tell("infer", call=call, items=items)

    def hang_up(self) -> None:
        os.close(self._writes)
        self._writes = -1

    def output(self) -> str:
        text, _ = self.process.communicate(timeout=PATIENCE_S)
        return text

    def close(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)
        for descriptor in {self._writes, self._reads} - {-1}:
            os.close(descriptor)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            ready, _, _ = select.select([self._reads], [], [], PATIENCE_S)
            assert ready, "the runner says nothing"
            part = os.read(self._reads, size - len(data))
            assert part, f"the runner is gone: {self.output()}"
            data += part
        return data


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder on the runner's import path."""
    folder = tmp_path / "packages"
    folder.mkdir()
    return folder


@pytest.fixture
def start(tmp_path: Path, packages: Path) -> Iterator[Callable[..., Runner]]:
    """Start a runner and tell it to load a plugin with this source."""
    runners: list[Runner] = []

    def begin(source: str, *, keeper: int | None = None, **changes: Any) -> Runner:
        folder = tmp_path / "plugin"
        folder.mkdir()
        (folder / "plugin.py").write_text(textwrap.dedent(source), encoding="utf-8")
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        runner = Runner(scratch, keeper=os.getpid() if keeper is None else keeper, path=packages)
        runners.append(runner)
        values: dict[str, Any] = {
            "plugin": {"name": "mine", "folder": str(folder), "entry": "plugin:Plugin"},
            "device": "cpu",
            "threads": 3,
            "weights": [],
            "limits": {"open_files": 200, "address_space_bytes": None},
        }
        runner.tell("load", **(values | changes))
        return runner

    yield begin
    for runner in runners:
        runner.close()


@pytest.fixture
def load(start: Callable[..., Runner]) -> Callable[..., Runner]:
    def begin(source: str, **changes: Any) -> Runner:
        runner = start(source, **changes)
        ready = runner.hear()
        assert ready["type"] == "ready", ready
        return runner

    return begin


def test_it_says_when_it_is_ready_and_what_took_how_long(start: Any) -> None:
    ready = start(
        """
        class Plugin:
            def load(self, context): context.phase("graph")
            def infer(self, inputs, context): return {}
        """
    ).hear()

    assert ready["type"] == "ready"
    assert set(ready["phases"]) == {"check_weights", "import", "load", "graph"}
    assert ready["device"] == "cpu"
    assert ready["peak_rss_bytes"] > 1_000_000


def test_one_process_answers_many_calls(load: Any) -> None:
    runner = load(ECHO)

    for call in range(1, 4):
        [answer] = runner.ask({"call": call}, call=call)
        assert answer["result"] == {"echo": {"call": call}, "seed": 5}


def test_what_is_printed_goes_to_the_log_and_breaks_nothing(load: Any) -> None:
    runner = load(
        """
        import os, subprocess, sys
        class Plugin:
            def load(self, context): print("loading")
            def infer(self, inputs, context):
                print("to stdout"); print("to stderr", file=sys.stderr)
                os.write(1, b"raw\\n"); subprocess.run(["echo", "from a child"])
                input_is_empty = sys.stdin.read() == ""
                return {"input_is_empty": input_is_empty}
        """
    )

    assert runner.ask({})[0]["result"] == {"input_is_empty": True}
    runner.hang_up()
    assert {"loading", "to stdout", "to stderr", "raw", "from a child"} <= set(
        runner.output().splitlines()
    )


def test_a_child_of_the_plugin_inherits_no_pipe_of_the_protocol(load: Any) -> None:
    runner = load(
        """
        import os, subprocess, sys
        class Plugin:
            def load(self, context): pass
            def infer(self, inputs, context):
                code = "import os; print(len(os.listdir('/proc/self/fd')))"
                run = subprocess.run([sys.executable, "-S", "-c", code],
                                     capture_output=True, text=True, close_fds=False)
                return {"count": int(run.stdout)}
        """
    )

    assert runner.ask({})[0]["result"] == {"count": 4}


def test_it_ends_when_nobody_writes_any_more(load: Any) -> None:
    runner = load(ECHO)

    runner.hang_up()

    assert runner.process.wait(PATIENCE_S) == 0


def test_it_ends_when_nobody_writes_also_in_the_middle_of_a_call(load: Any) -> None:
    runner = load(
        """
        import time
        class Plugin:
            def load(self, context): pass
            def infer(self, inputs, context): time.sleep(3600)
        """
    )
    runner.begin({})

    runner.hang_up()

    assert runner.process.wait(PATIENCE_S) == 0


def test_it_does_not_start_under_another_parent_than_its_keeper(start: Any) -> None:
    runner = start(ECHO, keeper=1)

    assert runner.process.wait(PATIENCE_S) == 1


def test_it_is_killed_with_its_parent_though_the_pipe_stays_open() -> None:
    starter = (
        "import os, subprocess, sys\n"
        "reads, writes = os.pipe()\n"
        "names = [str(reads), '1', str(os.getpid())]\n"
        "command = [sys.executable, '-m', 'model_plugins.runner', *names]\n"
        "run = subprocess.Popen(command, pass_fds=[reads, writes])\n"
        "print(run.pid, flush=True)\n"
        "run.wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starter],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        runner = os.pidfd_open(pid)
        wait_until_moved(pid)
        parent.kill()

    ready, _, _ = select.select([runner], [], [], PATIENCE_S)
    os.close(runner)
    assert ready


def wait_until_moved(pid: int) -> None:
    """Until a runner has moved its pipes, which it does after it has tied itself to its parent."""
    end = time.monotonic() + PATIENCE_S
    while not Path(f"/proc/{pid}/fd/11").exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_garbled_frame_from_the_host_is_the_end(load: Any) -> None:
    runner = load(ECHO)

    os.write(runner._writes, b"\0\0\0\5hello")

    assert runner.process.wait(PATIENCE_S) == 76


def test_a_cancel_arrives_while_the_plugin_works(load: Any) -> None:
    runner = load(
        """
        import time
        from model_plugins.base import JobCancelled
        class Plugin:
            def load(self, context): pass
            def infer(self, inputs, context):
                context.progress(0.1)
                while not context.cancelled: time.sleep(0.01)
                raise JobCancelled
        """
    )
    runner.begin({})
    assert runner.hear()["type"] == "progress"

    runner.tell("cancel", call=1, job="job-0")

    assert runner.hear()["items"][0]["error"]["code"] == "cancelled"


def test_a_cancel_of_an_earlier_call_means_nothing(load: Any) -> None:
    runner = load(
        """
        class Plugin:
            def load(self, context): pass
            def infer(self, inputs, context): return {"cancelled": context.cancelled}
        """
    )
    runner.ask({})

    runner.tell("cancel", call=1, job="job-0")

    assert runner.ask({}, call=2)[0]["result"] == {"cancelled": False}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("def", "SyntaxError"),
        ("Plugin = 3", "no class Plugin"),
        ("class Plugin:\n def load(self, context): pass", "no method infer"),
        (ECHO.replace("self.context = context", "1 / 0"), "ZeroDivisionError"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_broken(start: Any, source: str, words: str) -> None:
    runner = start(source)
    broken = runner.hear()

    assert broken["type"] == "broken"
    assert broken["error"]["code"] == "load_failed"
    assert words in broken["error"]["message"]
    assert runner.process.wait(PATIENCE_S) == 1


def test_a_folder_of_its_own_is_a_package_with_relative_imports(load: Any, tmp_path: Path) -> None:
    runner = load(
        """
        class Plugin:
            def load(self, context): pass
            def infer(self, inputs, context):
                from .part import VALUE
                return {"value": VALUE, "module": __name__}
        """
    )
    (tmp_path / "plugin" / "part.py").write_text("VALUE = 41 + 1\n")

    assert runner.ask({})[0]["result"] == {"value": 42, "module": "foldline_plugin_mine.plugin"}


def test_it_imports_nothing_but_the_standard_library_and_the_plugin(load: Any) -> None:
    runner = load(
        """
        import sys
        class Plugin:
            def load(self, context): pass
            def infer(self, inputs, context):
                known = sys.stdlib_module_names | {"foldline_plugin_mine", "model_plugins"}
                names = {name.partition(".")[0] for name in sys.modules} - known
                ours = [name for name in sys.modules if name.startswith("model_plugins.")]
                return {"strange": sorted(n for n in names if not n.startswith("_")), "ours": ours}
        """
    )

    result = runner.ask({})[0]["result"]
    assert result["strange"] == []
    assert set(result["ours"]) <= {
        f"model_plugins.{name}" for name in ("answers", "base", "contexts", "frames", "loading")
    }


def weights(packages: Path, *, sha256: str, package: str = "heavy") -> list[dict[str, str]]:
    folder = packages / "heavy"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "data" / "w.bin").write_bytes(b"weights")
    return [{"name": "main", "package": package, "path": "data/w.bin", "sha256": sha256}]


def test_weights_are_checked_without_importing_their_package(load: Any, packages: Path) -> None:
    right = hashlib.sha256(b"weights").hexdigest()
    runner = load(
        """
        class Plugin:
            def load(self, context): self.path = context.weights["main"]
            def infer(self, inputs, context): return {"path": str(self.path)}
        """,
        weights=weights(packages, sha256=right),
    )

    assert runner.ask({})[0]["result"] == {"path": str(packages / "heavy" / "data" / "w.bin")}


@pytest.mark.parametrize(
    ("sha256", "package", "words"),
    [
        ("0" * 64, "heavy", "expected 000"),
        ("0" * 64, "absent", "not installed"),
    ],
)
def test_weights_that_are_wrong_or_missing_are_named(
    start: Any, packages: Path, sha256: str, package: str, words: str
) -> None:
    broken = start(ECHO, weights=weights(packages, sha256=sha256, package=package)).hear()

    assert broken["error"]["code"] == "weights_mismatch"
    assert words in broken["error"]["message"]


def test_torch_gets_its_threads_when_the_plugin_brings_it(load: Any, packages: Path) -> None:
    (packages / "torch.py").write_text("threads = []\nset_num_threads = threads.append\n")
    runner = load(
        """
        class Plugin:
            def load(self, context):
                import torch
            def infer(self, inputs, context):
                import torch
                return {"threads": torch.threads}
        """
    )

    assert runner.ask({})[0]["result"] == {"threads": [3]}


TORCH_ON_A_CARD = """
    import sys
    from types import SimpleNamespace
    reserved = [5, 7]
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        device_count=lambda: 2,
        max_memory_reserved=lambda card: reserved.pop(),
    )
    sys.modules["torch"] = SimpleNamespace(cuda=cuda, set_num_threads=lambda threads: None)
    class Plugin:
        def load(self, context): pass
        def infer(self, inputs, context): return {}
"""


def test_what_torch_reserved_is_told_and_no_answer_is_lost_for_it(start: Any) -> None:
    runner = start(TORCH_ON_A_CARD)
    assert runner.hear()["peak_gpu_bytes"] == 12

    runner.begin({})
    done = runner.hear()
    assert (done["items"][0]["result"], done["peak_gpu_bytes"]) == ({}, 0)


def test_torch_is_not_imported_for_a_plugin_without_it(load: Any, packages: Path) -> None:
    (packages / "torch.py").write_text("raise RuntimeError('imported')\n")

    assert "result" in load(ECHO).ask({})[0]


def test_the_limits_of_the_frame_hold(load: Any) -> None:
    runner = load(
        """
        import resource
        class Plugin:
            def load(self, context): pass
            def infer(self, inputs, context):
                return {"files": resource.getrlimit(resource.RLIMIT_NOFILE),
                        "space": resource.getrlimit(resource.RLIMIT_AS)}
        """,
        limits={"open_files": 64, "address_space_bytes": 1 << 30},
    )

    assert runner.ask({})[0]["result"] == {"files": [64, 64], "space": [1 << 30, 1 << 30]}


BATCHES = """
class Plugin:
    def load(self, context): pass
    def infer(self, inputs, context):
        if inputs.get("bad"): raise ValueError("bad item")
        return {"batch": 1}
    def batch_key(self, inputs): return ""
    def infer_batch(self, items):
        for inputs, context in items:
            context.output("a.txt", media_type="text/plain")
        if any(inputs.get("bad") for inputs, context in items): raise ValueError("bad batch")
        for inputs, context in items:
            (context.scratch / "a.txt").touch()
        return [{"batch": len(items)} for _ in items][inputs.get("short", 0):]
"""


def test_several_items_are_one_batch(load: Any) -> None:
    assert [item["result"] for item in load(BATCHES).ask({}, {}, {})] == [{"batch": 3}] * 3


def test_one_item_is_no_batch(load: Any) -> None:
    assert load(BATCHES).ask({})[0]["result"] == {"batch": 1}


def test_without_batching_items_are_computed_one_by_one(load: Any) -> None:
    answers = load(ECHO).ask({"n": 1}, {"n": 2})

    assert [item["result"]["echo"] for item in answers] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("last", [{"bad": True}, {"short": 1}])
def test_a_batch_that_fails_as_a_whole_is_computed_one_by_one(
    load: Any, last: dict[str, Any]
) -> None:
    answers = load(BATCHES).ask({}, {}, last)

    assert [item.get("result") for item in answers[:2]] == [{"batch": 1}] * 2
    assert ("error" in answers[2]) == ("bad" in last)


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('no')", 1),
        ("raise KeyboardInterrupt", 130),
        ("os._exit(9)", 9),
    ],
)
def test_a_plugin_that_leaves_takes_the_process_with_it(load: Any, leave: str, code: int) -> None:
    runner = load(
        f"""
        import os, sys, threading, time
        class Plugin:
            def load(self, context): pass
            def infer(self, inputs, context):
                threading.Thread(target=time.sleep, args=(3600,)).start()
                {leave}
        """
    )
    runner.begin({})

    assert runner.process.wait(PATIENCE_S) == code


HUNGRY = """
    from model_plugins.base import GpuOutOfMemory
    class Plugin:
        calls = 0
        def load(self, context): pass
        def degrade(self, inputs):
            if inputs["size"] == "broken":
                raise ValueError("no idea")
            return {**inputs, "size": 1} if inputs["size"] > 1 else None
        def infer(self, inputs, context):
            Plugin.calls += 1
            if inputs["size"] > 1:
                raise GpuOutOfMemory("Too large.")
            return {"size": inputs["size"], "calls": Plugin.calls}
"""
RAN_OUT = {"code": "gpu_oom", "message": "Too large, on the first try.", "together": False}


class TestAfterRunningOutOfMemory:
    def test_the_plugin_gets_smaller_inputs_and_the_caller_is_told(self, load: Any) -> None:
        [answer] = load(HUNGRY).ask({"size": 9}, ran_out=RAN_OUT)
        assert answer["result"] == {"size": 1, "calls": 1}
        assert [warning["code"] for warning in answer["warnings"]] == ["degraded"]

    def test_what_cannot_be_made_smaller_is_not_run_again(self, load: Any) -> None:
        runner = load(HUNGRY)
        [answer] = runner.ask({"size": 1}, ran_out=RAN_OUT)
        assert answer["error"] == {"code": "gpu_oom", "message": "Too large, on the first try."}
        assert runner.ask({"size": 1}, call=2)[0]["result"]["calls"] == 1

    def test_a_plugin_that_knows_no_smaller_way_is_not_run_again(self, load: Any) -> None:
        [answer] = load(ECHO).ask({}, ran_out=RAN_OUT)
        assert answer["error"]["code"] == "gpu_oom"

    def test_what_ran_out_among_others_is_run_alone_as_it_is(self, load: Any) -> None:
        [answer] = load(ECHO).ask({"n": 1}, ran_out={**RAN_OUT, "together": True})
        assert answer["result"] == {"echo": {"n": 1}, "seed": 5}
        assert answer["warnings"] == []

    def test_a_mistake_in_looking_for_the_smaller_way_is_the_models(self, load: Any) -> None:
        [answer] = load(HUNGRY).ask({"size": "broken"}, ran_out=RAN_OUT)
        assert answer["error"]["code"] == "model_error"
