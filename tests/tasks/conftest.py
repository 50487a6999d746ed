"""Real plugin processes for the tests of the worker's side."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tasks.host import Answer, Item, PluginHost, PluginSpec, Progress, Stop

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "tests" / "plugins"
CLASSES = {"sleepy": "Sleepy", "hostile": "Hostile"}
PATIENCE_S = 30.0


class MakeSpec(Protocol):
    def __call__(self, name: str, **changes: Any) -> PluginSpec: ...


class MakeHost(Protocol):
    def __call__(self, name: str, **changes: Any) -> PluginHost: ...


class MakeItem(Protocol):
    def __call__(self, **inputs: Any) -> Item: ...


class Ask(Protocol):
    def __call__(
        self,
        host: PluginHost,
        *items: Item,
        seconds: float = PATIENCE_S,
        stop: Callable[[], Stop | None] = lambda: None,
        progress: Callable[[str, Progress], None] = lambda job, told: None,
    ) -> list[Answer]: ...


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object]], None]:
    """Wait until a condition holds; fails after a bounded time."""

    def wait(condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, "the condition never came true"
            time.sleep(0.01)

    return wait


@pytest.fixture
def is_running() -> Callable[[int], bool]:
    """Whether a process exists and is more than a zombie that waits for its parent."""

    def running(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] not in ("Z", "X")

    return running


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    def make(name: str, **changes: Any) -> PluginSpec:
        homes = tmp_path / "homes"
        homes.mkdir(exist_ok=True)
        values: dict[str, Any] = {
            "name": name,
            "folder": PLUGINS / name,
            "entry": f"plugin:{CLASSES.get(name, 'Plugin')}",
            "python": Path(sys.executable),
            "threads": 1,
            "device": "cpu",
            "weights": (),
            "load_timeout_s": PATIENCE_S,
            "import_root": ROOT,
            "scratch": homes,
        }
        return PluginSpec(**(values | changes))

    return make


@pytest.fixture
def make_host(make_spec: MakeSpec) -> Iterator[MakeHost]:
    """Started hosts; stopped at the end of the test."""
    hosts: list[PluginHost] = []

    def make(name: str, **changes: Any) -> PluginHost:
        host = PluginHost(make_spec(name, **changes))
        hosts.append(host)
        host.start()
        return host

    yield make
    for host in hosts:
        host.stop()


@pytest.fixture
def make_item(tmp_path: Path) -> MakeItem:
    numbers = itertools.count(1)

    def make(**inputs: Any) -> Item:
        number = next(numbers)
        scratch = tmp_path / f"scratch-{number}"
        scratch.mkdir()
        return Item(job=f"job-{number}", attempt=1, inputs=inputs, seed=7, scratch=scratch)

    return make


@pytest.fixture
def ask() -> Ask:
    """One call of a host that is, or becomes, ready."""

    def call(
        host: PluginHost,
        *items: Item,
        seconds: float = PATIENCE_S,
        stop: Callable[[], Stop | None] = lambda: None,
        progress: Callable[[str, Progress], None] = lambda job, told: None,
    ) -> list[Answer]:
        assert host.ready.wait(PATIENCE_S), host.broken
        end = time.monotonic() + seconds
        return host.call(
            items,
            seconds_left=lambda: end - time.monotonic(),
            stop=stop,
            progress=progress,
        )

    return call
