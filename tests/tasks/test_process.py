"""Nothing of a plugin outlives its worker, whatever happens to the worker."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker_process import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("small_worker.py")
NOBODY = 65534
MIB = 1024 * 1024
WaitFor = Callable[[Callable[[], object]], None]
IsRunning = Callable[[int], bool]


def arguments(folder: Path, act: str, *, python: str = sys.executable) -> list[str]:
    return [python, str(WORKER), str(ROOT), str(folder), act]


def run(command: list[str], *, user: int | None = None) -> dict[str, Any]:
    done = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], "FOLDLINE_SECRET": "s3cret"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        user=user,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def works(*command: str, user: int | None = None) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, check=False, user=user)
    except OSError:
        return False
    return done.returncode == 0


def assert_worker_is_closed(seen: dict[str, str]) -> None:
    _, worker = list(dict.fromkeys(name.split("/")[0] for name in seen))[:2]
    for part in ("environ", "maps", "fd/3"):
        assert seen[f"{worker}/{part}"] == "refused: Permission denied"
    assert "s3cret" not in json.dumps(seen)


def test_a_worker_that_is_killed_takes_everything_with_it(
    tmp_path: Path, wait_for: WaitFor, is_running: IsRunning
) -> None:
    pids = tmp_path / "pids"
    with subprocess.Popen(arguments(tmp_path, "leave_child_and_hang")) as worker:
        wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 3)
        worker.kill()

    wait_for(lambda: not any(is_running(int(pid)) for pid in pids.read_text().split()))


def test_an_undumpable_worker_is_closed_to_its_plugin(tmp_path: Path) -> None:
    assert_worker_is_closed(run(arguments(tmp_path, "read_ancestors"))["result"])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_it_is_closed_without_root_too() -> None:
    python = "/usr/bin/python3"
    if not works(python, "-c", f"import tomllib; open({str(WORKER)!r})", user=NOBODY):
        pytest.skip("the user nobody may not read this checkout, or has no Python 3.11")
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, NOBODY, NOBODY)
        told = run(arguments(Path(folder), "read_ancestors", python=python), user=NOBODY)

    assert_worker_is_closed(told["result"])


def test_a_worker_that_is_process_1_has_nobody_left_at_the_end(tmp_path: Path) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if not works(*namespace, "true"):
        pytest.skip("this machine does not let its users make process namespaces")

    told = run([*namespace, *arguments(tmp_path, "leave_child_in_own_session")])

    assert told["left"] == [1]


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A cgroup below this process's own that may hold `limit` bytes; skips without the right."""
    own = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    first = re.search(r"^\d+:memory:(.*)$", own, re.MULTILINE)
    path = first or re.search(r"^0::(.*)$", own, re.MULTILINE)
    root = Path("/sys/fs/cgroup/memory" if first else "/sys/fs/cgroup")
    knob = "memory.limit_in_bytes" if first else "memory.max"
    group = root / (path[1].lstrip("/") if path else "") / f"foldline-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        try:
            (group / knob).write_text(str(limit), encoding="ascii")
        except OSError as error:
            pytest.skip(f"this process may set no memory limit: {error}")
        yield group
    finally:
        wait_until(lambda: _removed(group))


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:  # its last process is still leaving
        return False
    return True


def test_a_plugin_that_the_kernel_ends_for_lack_of_memory_is_named(tmp_path: Path) -> None:
    with memory_group(200 * MIB) as group:
        join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        told = run(["sh", "-c", join, "sh", *arguments(tmp_path, "allocate_until_killed")])

    assert told["died"] == "host_oom"
